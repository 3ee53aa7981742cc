"""Short real training runs: the constants' rule beside its plain rivals, no warm-up."""

from deepnet_theory.spec.training import Comparison as Comparison
from deepnet_theory.spec.training import Run as Run
from deepnet_theory.spec.training import Training as Training
from deepnet_theory.training.runs import Batch as Batch
from deepnet_theory.training.runs import Text as Text
from deepnet_theory.training.runs import train as train
