"""What the tests of the builder share."""

import no_accelerator  # noqa: F401
import torch
from small_constants import constants  # noqa: F401

torch.set_num_threads(1)
