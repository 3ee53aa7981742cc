"""What the tests of the builder share."""

import no_accelerator  # noqa: F401
from small_constants import constants  # noqa: F401
