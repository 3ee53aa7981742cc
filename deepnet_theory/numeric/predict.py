"""Predict: ‖ΔF‖/η of a rule in absolute size, at any depth, from single sublayers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from deepnet_theory.numeric.measuring.one_sublayer import (
    distance_from_identity,
    predict_model_update,
    predict_shares,
)
from deepnet_theory.numeric.running.record import rule_to_dict
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.processes import Progress, silent
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.prediction import PredictedPoint, PredictedShare, UpdatePrediction
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection

NEAR = 1.0  # S·r² up to which the corrections are small


def predict(
    selection: Selection,
    rule: Rule,
    depths: Iterable[Depth],
    settings: Settings,
    progress: Progress | None = None,
) -> UpdatePrediction:
    """‖ΔF‖/η per token of ``rule`` at ``depths``; the shares are those of the deepest one.

    Each depth costs the same. Raises :class:`InputError` where the rule has no value at one of
    them or the prediction is not finite, :class:`~deepnet_theory.spec.errors.Refusal` for a
    layer of too many sublayers.
    """
    began = time.perf_counter()
    watched = progress or silent
    cases = [Case(selection, rule, depth, settings) for depth in depths]
    for case in cases:
        _ = case.constants, case.eta_factor
    points, warnings = [], []
    for index, case in enumerate(cases):
        key = depth_key(case.depth)
        watched(index, len(cases) + 1, f"one sublayer at depth {key}")
        found, identity = predict_model_update(case), distance_from_identity(case)
        if not math.isfinite(found.mean + identity):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        points.append(PredictedPoint(dict(case.depth), found.mean, *found.interval, identity))
        if identity > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {identity:.3g}, above {NEAR:g}: the stack is not near the "
                "identity, and the prediction does not reach it"
            )
    watched(len(cases), len(cases) + 1, "shares")
    shares = tuple(
        PredictedShare(part, name, share.mean, *share.interval)
        for (part, name), share in predict_shares(cases[-1]).items()
    )
    return UpdatePrediction(
        select=selection.to_dict(),
        measure={**settings.to_dict(), "depths": [depth_key(case.depth) for case in cases]},
        rule=rule_to_dict(rule),
        points=tuple(points),
        shares=shares,
        warnings=tuple(warnings),
        seconds=time.perf_counter() - began,
    )
