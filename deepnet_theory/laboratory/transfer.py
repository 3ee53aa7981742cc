"""Loss against learning rate over depths and widths, and one rate: a short training."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count, product
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Annotated, Any, Unpack

import torch

from deepnet_theory.definitions.constants import OF_A_BASE, Constants, SublayerConstants
from deepnet_theory.definitions.measurement import (
    TRAINING,
    TRANSFER,
    ClosureTransfer,
    Plan,
    Result,
    Run,
    sized,
)
from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.outcome import INTERRUPTION, InputError, Refusal, Verdict, shown
from deepnet_theory.definitions.record import LARGEST, Option
from deepnet_theory.laboratory.measuring import (
    MOST_SEEDS,
    alike,
    cost_of,
    of_all,
    require_known,
    seeds_from,
)
from deepnet_theory.laboratory.optimum import (
    ENOUGH,
    certified,
    curve_of,
    expected_power,
    judged,
    of_steps,
    wanted_rates,
    with_best,
)
from deepnet_theory.laboratory.runs import Ended, run_of, warning
from deepnet_theory.laboratory.settings import Depth, Settings, depth_key, provenance
from deepnet_theory.laboratory.statistics import t_interval
from deepnet_theory.laboratory.text import BYTES
from deepnet_theory.laboratory.training import Built, Course, Setup
from deepnet_theory.processes.jobs import Job, Work, cores, run_jobs
from deepnet_theory.processes.keep import cache_of
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.machine import device_called

LONG = 10_000  # steps of one layer; below it a process takes longer to start than to help
Trainers = Mapping[str, Built | Setup]  # by the name of a closure or a rule
Rows = list[dict[float, list[Ended]]]  # of each place by rate, where all seeds have ended


def train_all(
    trainers: Trainers, places: Sequence[Depth], rates: Sequence[float],
    seeds: Sequence[int], work: Work,
) -> tuple[dict[str, Rows], str]:  # fmt: skip
    """Every trainer at every place with every rate and seed; and why it ended early."""
    cache = work["cache"] = cache_of(work.get("cache"))
    found, jobs = dict[tuple[object, int], Ended](), list[Job]()
    groups = [(place, names) for place in places for names in alike_at(place, trainers)]
    for place, (name, *_) in groups:
        one = trainers[name]
        known = None if cache is None else one.depends_on(place)
        for rate, seed in product(rates, seeds):
            what = f"{name}, {one.name} at {sized(place)}, lr {rate:g}"
            keep = partial(found.__setitem__, ((name, sized(place), rate), seed))
            on = None if known is None else (known, rate, seed)
            cost = cost_of(place) * place.get("T", 1)
            jobs.append(Job(what, cost, partial(one.train, place, rate, seed), keep, on))
    if work.get("processes", 1) is None:
        each = product(places, trainers.values())
        layers = sum(place.get("N", 1) * place.get("T", one.steps) for place, one in each)
        steps = layers * len(rates) * len(seeds)
        work["processes"] = cores() if steps >= LONG and not torch.cuda.is_available() else 1
    stopped = run_jobs(jobs, sum(job.cost for job in jobs), **work)
    if stopped and stopped != INTERRUPTION and not found:
        raise InputError(stopped)
    rows = {name: Rows() for name in trainers}
    for place, names in groups:
        keys = {rate: (names[0], sized(place), rate) for rate in rates}
        row = {rate: runs for rate, key in keys.items() if (runs := of_all(seeds, found, key))}
        for name in names:
            rows[name].append(row)
    return rows, stopped


def alike_at(place: Depth, trainers: Trainers) -> list[list[str]]:
    """The names of the trainers, those together that train the same model at a place."""
    found = list[tuple[object, list[str]]]()
    for name, one in trainers.items():
        what = one.depends_on(place) or name
        names = next((names for other, names in found if other == what), None)
        if names is None:
            found.append((what, names := []))
        names.append(name)
    return [names for _, names in found]


def planned(
    trainers: Trainers, left_out: Sequence[str], places: Sequence[Depth],
    rates: str | Iterable[float], seeds: int,
) -> Plan:  # fmt: skip
    """What :func:`transfer_of` would train; a run that several rules share is the first one's."""
    first = Counter(names[0] for place in places for names in alike_at(place, trainers))
    asked = wanted_rates(rates)
    runs = {name: first[name] * len(asked) * seeds for name in trainers}
    power = partial(expected_power, places, asked)
    needed = next(n for n in count(2) if n == MOST_SEEDS or power(n) >= ENOUGH)
    return Plan(runs, tuple(left_out), seeds, power(seeds), needed)


def transfer_of(
    of: dict[str, Any],
    settings: dict[str, Any],
    candidates: Trainers,
    places: Sequence[Depth],
    rates: str | Iterable[float],
    device: str,
    rivals: Trainers = MappingProxyType({}),
    **work: Unpack[Work],
) -> Result:
    """Train every candidate at every place with every rate, and say which rates transfer.

    ``settings`` have the seeds. The verdict is that of the first candidate; with ``rivals``, wrong
    rules that are the same as it at the first place, that of :func:`certified`. An interrupt
    (Ctrl-C) gives the partial result, UNDECIDED. Raises :class:`InputError` for what cannot be
    trained.
    """
    began = time.perf_counter()
    rates = wanted_rates(rates)
    seeds = seeds_from(settings["seed"], settings["seeds"])
    trainers = {**candidates, **rivals}
    trained, stopped = train_all(trainers, places, rates, seeds, work)
    every = chain(*(runs for rows in trained.values() for row in rows for runs in row.values()))
    known = [one.baseline for one in every if one.baseline is not None]
    baseline = fmean(known) if known else None
    level = math.inf if baseline is None else baseline
    warnings, closures = list[str](), list[ClosureTransfer]()
    for name, trainer in trainers.items():
        rows = trained[name]
        losses = [[one.value for one in runs] for row in rows for runs in row.values()]
        finite = [v for v in losses if all(map(math.isfinite, v))]
        same = bool(finite) and len(seeds) > 1 and all(len({*v}) == 1 for v in finite)
        warnings += _warnings(trainer.name, places, rows, same * len(seeds))
        if same:
            rows = [{rate: runs[:1] for rate, runs in row.items()} for row in rows]
        drawn = [curve_of(p, row, rates, level) for p, row in zip(places, rows, strict=True)]
        curves = with_best(drawn, level)
        held_against = closures[0].curves if name in rivals else None
        exponents, cost, gap, verdict = judged(curves, level, held_against)
        signal = tuple(of_steps(curves, exponents, trainer.is_constant))
        told = name, trainer.rho, tuple(curves), exponents, cost, verdict, gap, signal
        closures.append(ClosureTransfer(*told))
    beside, power = closures[len(candidates) :], None
    verdict, because = closures[0].verdict, ""
    if rivals:
        verdict, because, power = certified(closures[0], beside)
    sizes = {"depths": [*map(depth_key, places)], "rates": [*rates]}
    for symbol, what in (("d", "width"), ("B", "batch"), ("T", "steps")):
        if symbol in places[0]:
            sizes[what] = sorted({place[symbol] for place in places})
    return Result(
        TRANSFER,
        of=of,
        settings=settings | sizes,
        verdict=verdict,
        provenance=provenance(began, device_called(device), stopped, warnings),
        closures=tuple(closures[: len(candidates)]),
        baseline=baseline,
        because=because,
        rivals=tuple(beside),
        power=power,
    )


def _warnings(
    name: str, places: Sequence[Depth], rows: Sequence[Mapping[float, Sequence[Ended]]], same: int
) -> Iterator[str]:
    """How many runs ended early and why the first did, and whether the seeds are alike."""
    runs = [
        (place, rate, index, one)
        for place, row in zip(places, rows, strict=True)
        for rate, seeds in row.items()
        for index, one in enumerate(seeds)
    ]
    if early := [run for run in runs if run[3].why]:
        place, rate, index, one = early[0]
        yield (
            f"{len(early)} of {len(runs)} runs diverged; the first, of {name} at {sized(place)}, "
            f"lr {rate:g}, seed {index}: {one.why}"
        )
    if same:
        yield alike(f"{name} gives the same", same)


# ---- one rate: a short training ----


def train(
    constants: Constants | str | Path,
    *,
    text: Annotated[str | Path | None, Option("FILE", "Text to train on")] = None,
    steps: Annotated[int, Option("N", "Steps")] = 300,
    batch: Annotated[int, Option("N", "Windows a step")] = 8,
    tokens: Annotated[int, Option("N", "Bytes a window")] = 64,
    lr: Annotated[float, Option("ETA", "Learning rate")] = 3e-4,
    seed: Annotated[int, Option("S", "Seed of all draws")] = 0,
    seeds: Annotated[int, Option("N", "Independent repetitions")] = 3,
    device: Annotated[str, Option("NAME", "auto, cpu or cuda")] = "auto",
    **work: Unpack[Work],
) -> Result:
    """Train the model of the constants, and beside it the same one plain: α = β = 1, one rate.

    With the constants' optimizer at its full ``lr`` from the first step. Both start from the same
    embedding and head and see the same windows of ``text``; the verdict compares their validation
    losses, paired by seed. One part predicts the next byte under a causal mask; the decoder of two
    continues the encoder's window. Ctrl-C gives the result of what is finished. Raises
    :class:`InputError` for bad settings and :class:`Refusal` for an optimizer without a name.
    """
    began = time.perf_counter()
    if type(lr) not in (int, float) or not 0 < lr <= LARGEST:
        raise InputError(f"lr must be positive, not {shown(lr)}")
    require_known(work)
    drawn, constants = seeds_from(seed, seeds), checked(constants)
    constants.warn()
    a = constants.architecture
    if a.vocab < BYTES:
        raise InputError(
            f"the constants have a vocabulary of {a.vocab}; "
            f"text is trained on by bytes and needs at least {BYTES}"
        )
    if constants.optimizer not in OPTIMIZERS:
        update = f" ({shown(constants.update)})" if constants.update else ""
        raise Refusal(
            f"train steps with the optimizer of the constants, and theirs, "
            f"{shown(constants.optimizer)}{update}, is none of: {', '.join(OPTIMIZERS)}"
        )
    sizes = Settings(
        width=a.width, heads=a.heads, tokens=tokens, batch=batch, step="all", device=device
    )
    stepped = OPTIMIZERS[constants.optimizer]
    file = None if text is None else str(Path(text).absolute())
    course = Course(stepped, sizes, steps, file)
    corpus = course.corpus(len(constants.parts))
    place = {"N": sum(part.layers for part in constants.parts)}
    own = f"{constants.placement}, the constants' rule"
    rules = {own: causal(constants), PLAIN: causal(plain(constants))}
    trainers = {n: Built(n, {depth_key(place): c}, course) for n, c in rules.items()}
    trained, stopped = train_all(trainers, [place], [lr], drawn, work)
    ended = [trained[name][0].get(lr, []) for name in rules]
    runs = tuple(run_of(n, place, each) for n, each in zip(rules, ended, strict=True))
    finished = sum(map(bool, ended))
    if stopped == INTERRUPTION and not finished:
        raise KeyboardInterrupt
    verdict, because = (
        (Verdict.UNDECIDED, f"{stopped}: {finished} of 2 runs were finished")
        if stopped
        else compared(runs[0], runs[1], corpus.baseline)
    )
    rows = constants.origin.get("rows")  # of a file, which may say anything there
    network = {n: getattr(constants, n) for n in ("optimizer", "placement", "stack")}
    return Result(
        TRAINING,
        {
            "select": network, "condition": constants.condition,
            "rows": rows if isinstance(rows, dict) else {}, "row": constants.origin.get("row"),
        },
        {
            "steps": steps, "batch": batch, "tokens": tokens, "lr": lr, "seed": seed,
            "seeds": seeds, "optimizer": f"{stepped.name}, no warm-up",
            "device": str(sizes.torch_device), "corpus": corpus.name if text is None else str(text),
            "constants": constants.to_dict(),
        },
        verdict=verdict,
        provenance=provenance(
            began, sizes.torch_device, stopped,
            [
                f"{name}: {sentence}"
                for name, each in zip(rules, ended, strict=True)
                if (sentence := warning(t for one in each for t in one.taken))
            ],
        ),
        runs=runs, baseline=corpus.baseline, because=because,
    )  # fmt: skip


PLAIN = "plain, α = β = 1"


def plain(constants: Constants) -> Constants:
    """The rival: the same sizes and placement, α = β = 1 and no learning-rate multipliers."""
    bare = constants.mapped(
        lambda _, __, s: SublayerConstants(s.kind, 1.0, 1.0, parallel=s.parallel),
        **{"eta": 1.0, "form": "forward", "warning": "", "condition": "", **OF_A_BASE},
    )
    return replace(bare, parts=tuple(replace(part, multipliers={}) for part in bare.parts))


def causal(constants: Constants) -> Constants:
    """The same constants with a causal last part, and their warning already said."""
    *before, last = constants.parts
    return replace(constants, parts=(*before, replace(last, causal=True)), warning="")


def compared(run: Run, rival: Run, baseline: float) -> tuple[Verdict, str]:
    """SUPPORTED where the run's loss is below the rival's, REFUTED where it is above.

    Below and above are said of the whole interval of the difference, paired by seed. A loss that
    stopped being finite is REFUTED, and a rival's is beaten.
    """
    if run.finding:
        return Verdict.REFUTED, f"{run.rule}: {run.finding}"
    losses = f"validation loss {run.held_out:.3f} nats, unigram entropy {baseline:.3f} nats"
    if rival.finding:
        return Verdict.SUPPORTED, f"{losses}; {rival.rule}: {rival.finding}"
    pairs = zip(run.held_out_by_seed, rival.held_out_by_seed, strict=True)
    interval = t_interval([ours - theirs for ours, theirs in pairs])
    word = "higher" if interval.estimate > 0 else "lower"
    said = f"{losses}; {abs(interval.estimate):.3f} nats {word} than {rival.rule}"
    if not math.isfinite(interval.low):
        return Verdict.UNDECIDED, f"{said} (one seed gives no interval)"
    said += f" (difference {interval.low:+.3f} to {interval.high:+.3f})"
    if 0.0 in interval:
        return Verdict.UNDECIDED, said
    return (Verdict.SUPPORTED if interval.high < 0 else Verdict.REFUTED), said
