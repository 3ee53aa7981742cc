"""What the claims take of the laboratory: the one file that knows where in it things are."""

from deepnet_theory.numeric.judging.statistics import (
    TOLERANCE,
    Interval,
    fit_exponent,
    judge,
    slopes,
    t_interval,
)
from deepnet_theory.numeric.measuring.model_update import measure_model_update
from deepnet_theory.numeric.measuring.trace import Trace, correlation, take_trace
from deepnet_theory.numeric.stacks.case import VOCAB, Case
from deepnet_theory.numeric.stacks.data import text_bytes, text_windows
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.trial import MATRICES, Trial, draw_batch, generator_for
from deepnet_theory.numeric.stepping.step import only
from deepnet_theory.numeric.stepping.update import update
from deepnet_theory.runtime import Description, build, described
from deepnet_theory.runtime.linear import NORM_EPS, Linear

__all__ = [
    "MATRICES",
    "NORM_EPS",
    "TOLERANCE",
    "VOCAB",
    "Case",
    "Description",
    "Interval",
    "Linear",
    "Settings",
    "Trace",
    "Trial",
    "build",
    "correlation",
    "described",
    "draw_batch",
    "fit_exponent",
    "generator_for",
    "judge",
    "measure_model_update",
    "only",
    "slopes",
    "t_interval",
    "take_trace",
    "text_bytes",
    "text_windows",
    "update",
]
