"""Short real training runs: the constants' rule beside its plain rivals, Adam, no warm-up."""

from deepnet_theory.training.corpus import Batch, Text, Translation
from deepnet_theory.training.result import Run, Training
from deepnet_theory.training.run import train

__all__ = ["Batch", "Run", "Text", "Training", "Translation", "train"]
