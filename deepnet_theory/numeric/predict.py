"""Predict: ‖ΔF‖/η of a rule in absolute size, at any depth, from single sublayers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import partial
from statistics import fmean
from typing import Unpack

from deepnet_theory.numeric.case import NEAR, Case
from deepnet_theory.numeric.depths import Depth, depth_key
from deepnet_theory.numeric.one_sublayer import (
    Distance,
    Key,
    PredictedUpdate,
    distance_from_identity,
    predict_model_update,
    predict_shares,
)
from deepnet_theory.numeric.schedule import rule_to_dict
from deepnet_theory.numeric.settings import Settings, fitting_processes, fitting_threads
from deepnet_theory.numeric.statistics import positive_interval
from deepnet_theory.processes import Job, Work, per_seed, run_where
from deepnet_theory.runtime.machine import in_threads
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.results.prediction import PredictedPoint, PredictedShare, UpdatePrediction
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.scheme import Scheme
from deepnet_theory.spec.selection import Selection


def predict(
    selection: Selection,
    rule: Rule,
    depths: Iterable[Depth],
    settings: Settings,
    *,
    scheme: Scheme | None = None,
    **work: Unpack[Work],
) -> UpdatePrediction:
    """‖ΔF‖/η per token of ``rule`` at ``depths``; the shares are those of the deepest one.

    Each depth costs the same. ``scheme`` and ``work`` are those of
    :func:`~deepnet_theory.numeric.verify.verify`. Raises :class:`InputError` where the rule has
    no value at one of them or the prediction is not finite,
    :class:`~deepnet_theory.spec.errors.Refusal` where no sampled layer can stand for the others.
    """
    began = time.perf_counter()
    cases = [Case(selection, rule.plain(), depth, settings, scheme=scheme) for depth in depths]
    if not cases[0].alike:
        raise Refusal(
            f"the scheme {rule.name!r} is not predicted from single sublayers: its layers differ, "
            "or what multiplies the stream does not say what all of them do together"
        )
    for case in cases:
        _ = case.constants, case.eta_factor
    seen: dict[str, tuple[PredictedUpdate, Distance]] = {}
    kinds: list[dict[Key, PredictedUpdate]] = []
    fits = partial(per_seed, seeds=settings.seeds)
    with fitting_threads(settings) as threads:
        jobs = []
        for case in cases:
            one = partial(in_threads, threads, partial(_one_depth, case))
            keep = partial(seen.__setitem__, depth_key(case.depth))
            what = f"one sublayer at depth {depth_key(case.depth)}"
            jobs.append(Job(what, 1, one, keep, depends_on=one, fits=fits))
        last = partial(in_threads, threads, partial(predict_shares, cases[-1]))
        jobs.append(Job("shares", 1, last, kinds.append, depends_on=last, fits=fits))
        depths = [case.depth for case in cases]
        work["processes"] = fitting_processes(work.get("processes", 1), depths, settings)
        run_where(jobs, len(jobs), **work)
    points, warnings = [], []
    for case in cases:
        key = depth_key(case.depth)
        found, distance = seen[key]
        identity, block = fmean(distance.whole), fmean(distance.block)
        if not math.isfinite(found.mean + identity):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        # each seed has data of its own: over seeds the interval is what other data would give
        over = positive_interval(found.values)
        points.append(PredictedPoint(dict(case.depth), found.mean, over.low, over.high, identity))
        if block > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {identity:.3g}, above {NEAR:g}: the stack is not near the "
                "identity, and the prediction does not reach it"
            )
    shares = []
    for (part, name), share in kinds[0].items():
        over = positive_interval(share.values)
        shares.append(PredictedShare(part, name, share.mean, over.low, over.high))
    return UpdatePrediction(
        select=cases[0].select,
        measure={**settings.to_dict(), "depths": [depth_key(case.depth) for case in cases]},
        rule=rule_to_dict(rule),
        points=tuple(points),
        shares=tuple(shares),
        warnings=tuple(warnings),
        seconds=time.perf_counter() - began,
    )


def _one_depth(case: Case) -> tuple[PredictedUpdate, Distance]:
    return predict_model_update(case), distance_from_identity(case)
