"""Short real training runs: the constants' rule beside its plain rivals, no warm-up."""

from deepnet_theory.training.corpus import Batch, Text, Translation
from deepnet_theory.training.result import Comparison, Run, Training
from deepnet_theory.training.runs import train

__all__ = ["Batch", "Comparison", "Run", "Text", "Training", "Translation", "train"]
