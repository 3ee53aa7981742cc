"""What the claims take of the laboratory: the one file that knows where in it things are."""

from deepnet_theory.numeric.judging.statistics import (
    Interval,
    fit_exponent,
    judge,
    slopes,
    t_interval,
)
from deepnet_theory.numeric.measuring.model_update import measure_model_update
from deepnet_theory.numeric.measuring.trace import correlation, take_trace
from deepnet_theory.numeric.stacks.case import VOCAB, Case
from deepnet_theory.numeric.stacks.data import text_bytes, text_windows
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.trial import MATRICES, Trial, draw_batch, generator_for
from deepnet_theory.numeric.stepping.step import only
from deepnet_theory.numeric.stepping.update import update
from deepnet_theory.runtime import build, described
from deepnet_theory.runtime.linear import NORM_EPS, Linear
