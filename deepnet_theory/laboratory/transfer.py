"""Loss against learning rate over depths and widths, and one rate of it: a short training."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Unpack

import torch

from deepnet_theory.definitions.constants import OF_A_BASE, Constants, SublayerConstants
from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.outcome import INTERRUPTION, InputError, Refusal, Verdict, shown
from deepnet_theory.definitions.placement import placement
from deepnet_theory.definitions.record import ShortRun, record
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.training import ClosureTransfer, Run, Training, Transfer
from deepnet_theory.laboratory.common_mode import warning
from deepnet_theory.laboratory.optimum import judged
from deepnet_theory.laboratory.settings import (
    Depth,
    Settings,
    depth_key,
    fitting_processes,
    provenance,
)
from deepnet_theory.laboratory.statistics import t_interval, what_decides
from deepnet_theory.laboratory.text import BYTES, entropy
from deepnet_theory.laboratory.training import Course, Trained, train_stack
from deepnet_theory.processes import Job, Work, run_until_stopped, split, with_advice
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.machine import fitting_threads, in_threads, repeatable

NEEDS_LESS = "fewer seeds, tokens or layers or a smaller width need less"


@dataclass(frozen=True)
class Candidate:
    """A rule under the name of its closure, and its constants by depth."""

    closure: str
    rule: dict[str, Any]  # as plain data
    rho: str
    failing: float | None  # the exponent in depth that is predicted of the failing rate
    constants: Mapping[str, Constants]  # by depth key


Grid = dict[tuple[str, str], dict[float, Trained]]  # by closure and depth key, then by rate


def _train_all(
    candidates: Sequence[Candidate], depths: Sequence[Depth], rates: Sequence[float],
    course: Course, work: Work,
) -> tuple[Grid, str]:  # fmt: skip
    """Every candidate at every depth and rate, each a stack of seeds; and why it ended early."""
    settings, grid = course.settings, Grid()
    one = next(iter(candidates[0].constants.values()))
    threads = fitting_threads(
        course.count * settings.batch * settings.tokens * one.architecture.width
    )
    digest = course.corpus(len(one.parts)).digest
    jobs = [
        Job(
            f"{candidate.closure}, depth {depth_key(depth)}, rate {rate:g}",
            float(math.prod(depth.values())),
            partial(in_threads, threads, partial(train_stack, constants, rate, course)),
            partial(grid.setdefault((candidate.closure, depth_key(depth)), {}).__setitem__, rate),
            depends_on=("transfer", constants, rate, course, digest, threads),
        )
        for depth, candidate in product(depths, candidates)
        for rate in rates
        if (constants := candidate.constants[depth_key(depth)])
    ]
    with repeatable(settings.torch_device):
        stopped = run_until_stopped(jobs, sum(job.cost for job in jobs), **work)
    if stopped and stopped != INTERRUPTION and not any(grid.values()):
        raise InputError(with_advice(stopped, NEEDS_LESS))
    return grid, stopped


def transfer(
    selection: Selection,
    candidates: Sequence[Candidate],
    depths: Sequence[Depth],
    rates: Sequence[float],
    course: Course,
    **work: Unpack[Work],
) -> Transfer:
    """Train every candidate at every depth with every rate, and say which rates transfer.

    An interrupt (Ctrl-C) gives the partial result, UNDECIDED. Raises :class:`InputError` for what
    cannot be trained.
    """
    began, settings = time.perf_counter(), course.settings
    # no model that ignores its input has a lower loss on these very windows
    baseline = entropy(torch.stack([batch.targets for batch in course.validation()]))
    repeated = min(len(candidates) * len(rates) * course.steps, 10_000)
    layers = [{s: n for s, n in depth.items() if s != "d"} for depth in depths] * repeated
    work["processes"] = fitting_processes(work.get("processes", 1), layers, settings)
    grid, stopped = _train_all(candidates, depths, rates, course, work)
    widths = sorted({depth["d"] for depth in depths if "d" in depth})
    return Transfer(
        select={k: v for k, v in selection.to_dict().items() if k != "closure"},
        measure={
            **course.to_dict(), "depths": [depth_key(d) for d in depths], "rates": list(rates),
            **({"width": widths} if widths else {}),
        },
        closures=tuple(_closure(c, grid, depths, rates, baseline) for c in candidates),
        baseline=baseline,
        provenance=provenance(began, settings.torch_device, stopped),
    )  # fmt: skip


def _closure(
    candidate: Candidate, grid: Grid, depths: Sequence[Depth], rates: Sequence[float],
    baseline: float,
) -> ClosureTransfer:  # fmt: skip
    """The candidate's curves, with the common mode of each rate, and what they say."""
    rows = [grid[candidate.closure, depth_key(depth)] for depth in depths]
    losses = [{rate: one.losses for rate, one in row.items()} for row in rows]
    closure = judged(
        depths, rates, losses, baseline, candidate.failing,
        candidate.closure, candidate.rule, candidate.rho,
    )  # fmt: skip
    curves = []
    for curve, row in zip(closure.curves, rows, strict=True):
        weights, cosines = (
            tuple(max(getattr(row[rate], what), default=math.nan) for rate in curve.rates)
            for what in ("weights", "cosines")
        )
        curves.append(replace(curve, common_mode=weights, token_cosine=cosines))
    return replace(closure, curves=tuple(curves))


# ---- one rate: a short training ----


def train(constants: Constants | str | Path, **given: Any) -> Training:
    """Train the model of the constants, and beside it the same one plain: α = β = 1, one rate.

    With the constants' optimizer at its full ``lr`` from the first step. Both start from the same
    embedding and head and see the same windows of ``text``; the verdict compares their validation
    losses, paired by seed. One part predicts the next byte under a causal mask; the decoder of two
    continues the encoder's window. On Ctrl-C the result of what is finished is returned. Raises
    :class:`InputError` for settings that cannot be run and :class:`Refusal` for constants whose
    optimizer is known by its first step alone.
    """
    began = time.perf_counter()
    settings, work = split(given)
    asked = record(ShortRun, "a training", settings)
    constants = checked(constants)
    constants.warn()
    a = constants.architecture
    if a.vocab < BYTES:
        raise InputError(
            f"the constants have a vocabulary of {a.vocab}; "
            f"text is trained on by bytes and needs at least {BYTES}"
        )
    known = optimizers()
    if constants.optimizer not in known:
        update = f" ({shown(constants.update)})" if constants.update else ""
        raise Refusal(
            f"train steps with the optimizer of the constants, and theirs, "
            f"{shown(constants.optimizer)}{update}, is none of: {', '.join(known)}"
        )
    sizes = Settings(
        width=a.width, heads=a.heads, tokens=asked.tokens, batch=asked.batch,
        seeds=max(2, asked.seeds), step="all", device=asked.device, seed=asked.seed,
    )  # fmt: skip
    text = None if asked.text is None else str(Path(asked.text).absolute())
    stepped = known[constants.optimizer]
    course = Course(stepped, sizes, asked.steps, text, seeds=asked.seeds)
    corpus = course.corpus(len(constants.parts))
    depth = {"N": sum(part.layers for part in constants.parts)}
    key, own = depth_key(depth), f"{constants.placement}, the constants' rule"
    rules = {own: causal(constants), PLAIN: causal(plain(constants))}
    named = [Candidate(n, {}, "", None, {key: c}) for n, c in rules.items()]
    grid, stopped = _train_all(named, [depth], [asked.lr], course, work)
    runs = tuple(_run(n, constants.placement, grid[n, key].get(asked.lr), course) for n in rules)
    if stopped == INTERRUPTION and not any(grid.values()):
        raise KeyboardInterrupt
    verdict, because = (
        (Verdict.UNDECIDED, f"{stopped}: {sum(map(bool, grid.values()))} of 2 runs were finished")
        if stopped
        else compared(runs[0], runs[1], corpus.baseline)
    )
    normed = placement(constants.placement).normalises_sum
    told = ((r.rule, warning(normed, r.common_mode_steps, r.common_mode)) for r in runs)
    return Training(
        runs, corpus.baseline, verdict, because,
        {
            **{k: v for k, v in asdict(asked).items() if k != "text"},
            "optimizer": f"{stepped.name}, no warm-up", "device": str(sizes.torch_device),
            "corpus": corpus.name if text is None else str(asked.text),
            "constants": constants.to_dict(),
        },
        provenance(
            began, sizes.torch_device, stopped,
            [f"{rule}: {sentence}" for rule, sentence in told if sentence],
        ),
    )  # fmt: skip


PLAIN = "plain, α = β = 1"


def plain(constants: Constants) -> Constants:
    """The rival: the same sizes and placement, α = β = 1 and no learning-rate multipliers."""
    parts = tuple(
        replace(
            part,
            multipliers={},
            sublayers=tuple(
                SublayerConstants(s.kind, 1.0, 1.0, parallel=s.parallel) for s in part.sublayers
            ),
        )
        for part in constants.parts
    )
    return replace(
        constants, eta=1.0, form="forward", warning="", condition="", **OF_A_BASE, parts=parts
    )


def causal(constants: Constants) -> Constants:
    """The same constants with a causal last part, and their warning already said."""
    *before, last = constants.parts
    return replace(constants, parts=(*before, replace(last, causal=True)), warning="")


def _run(rule: str, where: str, trained: Trained | None, course: Course) -> Run:
    if trained is None:
        return Run(rule, where, ())
    steps = len(trained.curve)
    finding = f"a loss was not finite at step {steps}" if steps < course.steps else ""
    if not finding and not all(map(math.isfinite, trained.losses)):
        finding = "a validation loss was not finite"
    by_seed = () if finding else trained.losses
    mean = math.fsum(by_seed) / len(by_seed) if by_seed else None
    common = trained.taken, trained.weights, trained.cosines
    return Run(rule, where, trained.curve, mean, finding, by_seed, *common)


def compared(run: Run, rival: Run, baseline: float) -> tuple[Verdict, str]:
    """SUPPORTED where the run's loss is below the rival's, REFUTED where it is above.

    Below and above are said of the whole interval of the difference, paired by seed. A loss that
    stopped being finite is REFUTED, and a rival's is beaten.
    """
    if run.finding:
        return Verdict.REFUTED, f"{run.rule}: {run.finding}"
    losses = f"validation loss {run.held_out:.3f}, unigram entropy {baseline:.3f}"
    if rival.finding:
        return Verdict.SUPPORTED, f"{losses}; {rival.rule}: {rival.finding}"
    pairs = zip(run.held_out_by_seed, rival.held_out_by_seed, strict=True)
    interval = t_interval([ours - theirs for ours, theirs in pairs])
    word = "above" if interval.estimate > 0 else "below"
    said = f"{losses}; {abs(interval.estimate):.3f} {word} {rival.rule}"
    if not math.isfinite(interval.low):
        return Verdict.UNDECIDED, f"{said} (one seed gives no interval)"
    said += f" ({interval.low:+.3f} to {interval.high:+.3f})"
    if 0.0 in interval:
        return Verdict.UNDECIDED, f"{said}; {what_decides(interval, 0.0)}".removesuffix("; ")
    return (Verdict.SUPPORTED if interval.high < 0 else Verdict.REFUTED), said
