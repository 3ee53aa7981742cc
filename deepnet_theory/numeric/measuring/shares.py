"""Shares: what each kind of parameter moves, stepped alone, measured beside predicted."""

from __future__ import annotations

from deepnet_theory.numeric.measuring.one_sublayer import (
    Key,
    PredictedUpdate,
    by_kind,
    change_along,
    directions_of,
    predict_shares,
)
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.threads import fitting_threads
from deepnet_theory.numeric.stacks.trial import Trial
from deepnet_theory.runtime.branches import math_attention

Shares = dict[Key, tuple[float, ...]]


def measure_shares(case: Case) -> Shares:
    r"""‖ΔF‖/η of every seed when one kind of parameter is stepped alone, by part and name.

    .. math:: \Delta F_s/\eta = \frac{\partial F}{\partial\theta_s}\,\frac{\Delta\theta_s}{\eta}
              \qquad \|\Delta F\| \le \sum_s \|\Delta F_s\|

    on the whole stacks of the first draw: one backward pass gives the steps of all kinds, one
    derivative of the output along its step each kind's share. No size of step is chosen, so that
    neither curvature nor rounding hides a share that is small.
    """
    found = {}
    with fitting_threads(case.settings), math_attention():
        trial = Trial(case)
        stepped = [(p, d) for p, d in trial.parameters() if d.part]
        for key, chosen in by_kind(directions_of(trial, stepped)).items():
            sizes = change_along(trial, chosen).norm(dim=-1)  # (seeds, batch, tokens)
            found[key] = tuple(sizes.flatten(1).mean(1).tolist())
    return found


def compare_shares(case: Case) -> tuple[Shares, dict[Key, PredictedUpdate]]:
    """The shares as measured, and as predicted from single sublayers on the same data."""
    return measure_shares(case), predict_shares(case)
