"""Predict: ‖ΔF‖/η of a rule in absolute size, at any depth, from single sublayers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from statistics import fmean
from typing import Unpack

from deepnet_theory.numeric.case import NEAR, Case
from deepnet_theory.numeric.depths import Depth, depth_key
from deepnet_theory.numeric.judging import ALL
from deepnet_theory.numeric.one_sublayer import (
    BLOCK,
    IDENTITY,
    PREDICTED,
    Key,
    PredictedUpdate,
    predict_shares,
)
from deepnet_theory.numeric.schedule import Record, measuring, predicting
from deepnet_theory.numeric.settings import Settings, fitting_processes, fitting_threads
from deepnet_theory.numeric.statistics import positive_interval
from deepnet_theory.processes import Work, run_where
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.results.measurement import PredictedPoint, PredictedShare, UpdatePrediction
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
    """‖ΔF‖/η per token of ``rule`` at ``depths``, at one price each; shares at the deepest.

    ``scheme`` and ``work`` as in :func:`~deepnet_theory.numeric.verify.verify`. Raises
    :class:`InputError` where the rule or the prediction has no finite value, :class:`Refusal` where
    no sampled layer can stand for the others.
    """
    began = time.perf_counter()
    cases = [Case(selection, rule.plain(), depth, settings, scheme=scheme) for depth in depths]
    if not cases[0].alike:
        raise Refusal(
            f"the {'scheme' if scheme else 'rule'} {rule.name!r} is not predicted from single "
            "sublayers: its layers differ, or what multiplies the stream does not say what all of "
            "them do together"
        )
    for case in cases:
        _ = case.constants, case.eta_factor
    by_key = {depth_key(case.depth): case for case in cases}
    record, kinds = Record(), list[dict[Key, PredictedUpdate]]()
    with fitting_threads(settings) as threads:
        jobs = [
            predicting(case, partial(record.keep, key), threads) for key, case in by_key.items()
        ]
        last = partial(predict_shares, cases[-1])
        jobs.append(measuring(cases[-1], "shares", 1, last, kinds.append, threads))
        depths = [case.depth for case in cases]
        work["processes"] = fitting_processes(work.get("processes", 1), depths, settings)
        run_where(jobs, len(jobs), **work)
    points, warnings = [], []
    for key, case in by_key.items():
        sizes = record.samples[f"{PREDICTED} {ALL}"][key]
        mean, whole = fmean(sizes), fmean(record.samples[IDENTITY][key])
        if not math.isfinite(mean + whole):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        # each seed has data of its own: over seeds the interval is what other data would give
        _, low, high = positive_interval(sizes).numbers
        points.append(PredictedPoint(dict(case.depth), mean, low, high, whole))
        if fmean(record.samples[BLOCK][key]) > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {whole:.3g}, above {NEAR:g}: the stack is not near the "
                "identity, and the prediction does not reach it"
            )
    shares = []
    for (part, name), share in kinds[0].items():
        _, low, high = positive_interval(share.values).numbers
        shares.append(PredictedShare(part, name, share.mean, low, high))
    return UpdatePrediction(
        select=cases[0].select,
        measure={**settings.to_dict(), "depths": [*by_key]},
        rule=asdict(rule.plain()),
        points=tuple(points),
        shares=tuple(shares),
        warnings=tuple(warnings),
        seconds=time.perf_counter() - began,
    )
