from deepnet_theory.training.runs import BYTES as BYTES
from deepnet_theory.training.runs import Text as Text
