"""What the claims take of the laboratory: the one file that knows where in it things are."""

from deepnet_theory.laboratory.model_update import (
    Direction,
    change_along,
    measure_model_update,
)
from deepnet_theory.laboratory.one_sublayer import predict_depth
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.statistics import (
    Interval,
    fit_exponent,
    judge,
    slopes,
    t_interval,
)
from deepnet_theory.laboratory.stepping import only
from deepnet_theory.laboratory.text import text_bytes, text_windows
from deepnet_theory.laboratory.trace import take_trace
from deepnet_theory.laboratory.trial import VOCAB, Case, Trial, draw_batch, generator_for
from deepnet_theory.models.step import update
from deepnet_theory.runtime import build, described
from deepnet_theory.runtime.linear import NORM_EPS, Linear
