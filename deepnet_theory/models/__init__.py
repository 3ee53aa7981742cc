"""Other people's torch models: made by their factory, read by one forward pass, judged, scaled.

No part of this room looks at the names of modules or parameters to find out what they do.
"""

from deepnet_theory.models.factory import Factory, Made, load_factory, made
from deepnet_theory.models.reading import read

__all__ = ["Factory", "Made", "load_factory", "made", "read"]
