"""What the claims take of the laboratory: the one file that knows where in it things are."""

from deepnet_theory.numeric.case import VOCAB, Case
from deepnet_theory.numeric.model_update import measure_model_update
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.statistics import (
    Interval,
    fit_exponent,
    judge,
    slopes,
    t_interval,
    to_decide,
)
from deepnet_theory.numeric.stepping import only, update
from deepnet_theory.numeric.trace import correlation, take_trace
from deepnet_theory.numeric.trial import (
    MATRICES,
    Trial,
    draw_batch,
    generator_for,
    text_bytes,
    text_windows,
)
from deepnet_theory.runtime import build, described
from deepnet_theory.runtime.linear import NORM_EPS, Linear
