"""Predict: ‖ΔF‖/η of a rule in absolute size, at any depth, from single sublayers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from concurrent.futures import Executor
from functools import partial
from statistics import fmean

from deepnet_theory.numeric.judging.level import NEAR
from deepnet_theory.numeric.measuring.one_sublayer import (
    Key,
    PredictedUpdate,
    distance_from_identity,
    predict_model_update,
    predict_shares,
)
from deepnet_theory.numeric.running.record import rule_to_dict
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.threads import fitting_processes, fitting_threads
from deepnet_theory.processes import Cache, Job, Progress, executor_of, run_jobs, silent
from deepnet_theory.runtime.machine import in_threads
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.prediction import PredictedPoint, PredictedShare, UpdatePrediction
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection


def predict(
    selection: Selection,
    rule: Rule,
    depths: Iterable[Depth],
    settings: Settings,
    progress: Progress | None = None,
    *,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Cache | None = None,
) -> UpdatePrediction:
    """‖ΔF‖/η per token of ``rule`` at ``depths``; the shares are those of the deepest one.

    Each depth costs the same. ``processes``, ``executor`` and ``cache`` are those of
    :func:`~deepnet_theory.numeric.verify.verify`. Raises :class:`InputError` where the rule has
    no value at one of them or the prediction is not finite,
    :class:`~deepnet_theory.spec.errors.Refusal` for a layer of too many sublayers.
    """
    began = time.perf_counter()
    cases = [Case(selection, rule.plain(), depth, settings) for depth in depths]
    for case in cases:
        _ = case.constants, case.eta_factor
    seen: dict[str, tuple[PredictedUpdate, float]] = {}
    kinds: list[dict[Key, PredictedUpdate]] = []
    with fitting_threads(settings) as threads:
        jobs = []
        for case in cases:
            work = partial(in_threads, threads, partial(_one_depth, case))
            keep = partial(seen.__setitem__, depth_key(case.depth))
            what = f"one sublayer at depth {depth_key(case.depth)}"
            jobs.append(Job(what, 1, work, keep, depends_on=work))
        last = partial(in_threads, threads, partial(predict_shares, cases[-1]))
        jobs.append(Job("shares", 1, last, kinds.append, depends_on=last))
        count = fitting_processes(processes, [case.depth for case in cases], settings)
        with executor_of(count, executor) as where:
            run_jobs(jobs, where, len(jobs), progress or silent, cache)
    points, warnings = [], []
    for case in cases:
        key = depth_key(case.depth)
        found, identity = seen[key]
        if not math.isfinite(found.mean + identity):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        points.append(PredictedPoint(dict(case.depth), found.mean, *found.interval, identity))
        if identity > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {identity:.3g}, above {NEAR:g}: the stack is not near the "
                "identity, and the prediction does not reach it"
            )
    shares = tuple(
        PredictedShare(part, name, share.mean, *share.interval)
        for (part, name), share in kinds[0].items()
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


def _one_depth(case: Case) -> tuple[PredictedUpdate, float]:
    return predict_model_update(case), fmean(distance_from_identity(case))
