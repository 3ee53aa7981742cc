"""The loop: every model is trained on the same batches, seed by seed, each by itself."""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from deepnet_theory.numeric.stepping.reference import library_optimizer
from deepnet_theory.processes import Job, Kept, Progress, run_until_stopped
from deepnet_theory.runtime import build, parameter_groups
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.machine import device_called, fitting_threads, in_threads, repeatable
from deepnet_theory.spec.constants import LARGEST, Constants
from deepnet_theory.spec.errors import INTERRUPTION, InputError, Refusal, shown
from deepnet_theory.spec.optimizer import Reference, optimizers
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.training.corpus import BYTES, Batch, Corpus, Text, Translation
from deepnet_theory.training.references import causal, gpt_2, plain
from deepnet_theory.training.result import Run, Training, compare, judge, mean_run
from deepnet_theory.training.runner import Runner

HELD_OUT_BATCHES = 8
MOST = 2**20  # steps, windows and bytes: far more than a short run has


def train(
    constants: Constants | str | Path,
    *,
    text: str | Path | None = None,
    steps: int = 300,
    batch: int = 8,
    tokens: int = 64,
    lr: float = 3e-4,
    seed: int = 0,
    seeds: int = 3,
    device: str = "auto",
    language: str = "de",
    progress: Progress | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
) -> Training:
    """Train the model of the constants beside plain post-LN, plain pre-LN and GPT-2's pre-LN.

    ``constants`` may be the name of their file. The optimizer that they were made for, as torch or
    pytorch-optimizer has it, from the first step at its full learning rate ``lr``, no warm-up, no
    weight decay, no clipping; the constants' own run takes their multipliers of learning rate and
    epsilon. Plain is α = β = 1, and GPT-2's the same with the last matrix of every branch drawn
    smaller. All start from the same embedding and head and see the same batches, with ``seeds``
    seeds one after another: the verdict is on the differences of their held-out losses, paired by
    seed.

    One part predicts the next byte of ``text`` (an encoder is trained with a causal mask,
    without which the task would be copying); an encoder–decoder translates Django's messages,
    or with ``text`` continues one window by the next.

    The useful ``lr`` depends on the optimizer and on the rule's closure, through it on depth: all
    closures balance the same first-order update, but Adam moves a matrix by lr whatever its size,
    so that the relative change of the scaled ones is of order lr/β, √(2N)·lr under the symmetric
    closure and lr under ``complete``, which :func:`~deepnet_theory.export` takes.
    At width 64 and lr 1e-3 one step moves them by 0.073 of their size at 25 layers and 0.146 at
    100 under ``symmetric``, and the held-out loss after 100 steps is 2.80 and 3.31 (unigram entropy
    3.24); at β = 1 by 0.010 at both, with losses 2.72 and 2.73
    (``benchmarks/learning_rate.py``).

    A run is one rule with one seed. ``processes``, or an ``executor``, share out the runs, and
    ``cache`` keeps each that is finished, so that a call that was stopped goes on with the others.
    On Ctrl-C the result of what is finished is returned. Raises
    :class:`InputError` for settings that cannot be run, :class:`Refusal` for constants whose
    optimizer no library has, and :class:`MissingExtraError` where its library or the
    translations are not installed.
    """
    counts = {"steps": steps, "batch": batch, "tokens": tokens, "seeds": seeds}
    for name, number in counts.items():
        if type(number) is not int or not 1 <= number <= MOST:
            raise InputError(f"{name} must be a whole number from 1 to {MOST}, not {shown(number)}")
    if type(lr) not in (int, float) or not 0 < lr <= LARGEST:
        raise InputError(f"lr must be positive, not {shown(lr)}")
    require_seed(seed)
    constants = checked(constants)
    constants.warn()
    if constants.architecture.vocab < BYTES:
        raise InputError(
            f"the constants have a vocabulary of {constants.architecture.vocab}; "
            f"text is trained on by bytes and needs at least {BYTES}"
        )
    reference = _reference(constants)
    library_optimizer(reference)  # one that is not installed is refused before the work
    where = device_called(device)
    started = time.perf_counter()
    parts = len(constants.parts)
    translates = parts == 2 and text is None
    corpus: Corpus = Translation(tokens, language) if translates else Text(text, tokens, parts)
    rules = {
        f"{constants.placement}, the constants' rule": causal(constants),
        "plain post-LN": causal(plain(constants, "post-ln")),
        "plain pre-LN": causal(plain(constants, "pre-ln")),
        "GPT-2's pre-LN": causal(gpt_2(constants)),
    }
    conditions = {
        "corpus": corpus.name, "steps": steps, "batch": batch, "tokens": tokens, "lr": lr,
        "optimizer": f"{reference.target}, no warm-up", "seed": seed, "seeds": seeds,
        "device": str(where), "constants": constants.to_dict(),
    }  # fmt: skip
    alone = executor is None and processes in (None, 1)
    count = fitting_threads(batch * tokens * constants.architecture.width)
    finished: dict[tuple[int, str], Run] = {}
    jobs: list[Job] = []
    for own in range(seed, seed + seeds):
        for rule, its in rules.items():
            course = _Course(rule, its, reference, steps, batch, tokens, lr, own, where.type)
            # only here can every step be told of
            watch = None
            if alone and progress is not None:
                watch = partial(_told, progress, len(jobs) * steps, seeds * len(rules) * steps)
            jobs.append(
                Job(
                    f"{rule}, seed {own}", steps,
                    partial(in_threads, count, partial(_train, course, corpus, watch)),
                    partial(finished.__setitem__, (own, rule)),
                    depends_on=("train", course, corpus.digest, count),
                    fits=partial(_fits, course),
                )
            )  # fmt: skip
    with repeatable(where):
        stopped = run_until_stopped(
            jobs,
            len(jobs) * steps,
            processes=processes,
            executor=executor,
            progress=None if alone else progress,
            cache=cache,
        )
    if not finished:
        if stopped == INTERRUPTION:
            raise KeyboardInterrupt
        raise InputError(f"{stopped}: a smaller batch, fewer tokens or processes need less")
    runs = _means(rules, finished)
    comparisons = tuple(compare(runs[0], rival) for rival in runs[1:])
    verdict, because = judge(runs, comparisons, corpus.baseline)
    if stopped:
        verdict = Verdict.UNDECIDED
        because = f"{stopped}: {len(finished)} of {len(jobs)} runs were finished"
    return Training(
        runs, corpus.baseline, verdict, because, conditions, time.perf_counter() - started,
        {"torch": torch.__version__, "python": platform.python_version()}, comparisons,
        stopped,
    )  # fmt: skip


def _fits(course: _Course, found: Run) -> bool:
    """Whether a kept run is one of this course: as long as it, or ended by what it found."""
    steps = len(found.losses)
    ended = steps == course.steps or (steps < course.steps and found.finding != "")
    return ended and found.rule == course.rule


def _told(progress: Progress, before: int, total: int, done: int, what: str) -> None:
    progress(before + done, total, what)


def _means(
    rules: Mapping[str, Constants], finished: Mapping[tuple[int, str], Run]
) -> tuple[Run, ...]:
    """Every rule's mean over the seeds that all rules have; where there is none, the first's."""
    seeds = sorted({seed for seed, _ in finished})
    whole = [seed for seed in seeds if all((seed, rule) in finished for rule in rules)]
    return tuple(
        mean_run([finished.get((s, rule), Run(rule, c.placement, ())) for s in whole or seeds[:1]])
        for rule, c in rules.items()
    )


def _reference(constants: Constants) -> Reference:
    """The library's optimizer that the constants were made for."""
    known = optimizers()
    found = known.get(constants.optimizer)
    if found is None or found.reference is None:
        update = f" ({shown(constants.update)})" if constants.update else ""
        raise Refusal(
            "train steps with the optimizer of the constants, and no library here has theirs, "
            f"{shown(constants.optimizer)}{update}; valid are: "
            + ", ".join(name for name, o in known.items() if o.reference is not None)
        )
    return found.reference


@dataclass(frozen=True)
class _Course:
    """All that one run depends on, beside the text."""

    rule: str
    constants: Constants
    reference: Reference
    steps: int
    batch: int
    tokens: int
    lr: float
    seed: int
    device: str


def _train(course: _Course, corpus: Corpus, watch: Callable[[int, str], None] | None = None) -> Run:
    """All steps of one rule with one seed, and the held-out losses."""
    c, seed, where = course.constants, course.seed, torch.device(course.device)
    # embedding and head have a generator of their own and are the same in every run
    outer, inner = _generator(seed, 0), _generator(seed, 1)
    model = build(c, generator=inner, embedding_generator=outer).to(where)
    groups = parameter_groups(model, course.lr)
    optimizer = library_optimizer(course.reference)(groups, lr=course.lr)
    runner = Runner(course.rule, c, model, optimizer)
    for step in range(course.steps):
        runner.step(corpus.batch(course.batch, _generator(seed, step)).to(where))
        if watch is not None:
            shown = f" {runner.losses[-1]:.2f}" if runner.losses else ""
            watch(step + 1, f"{course.rule}, seed {seed}:{shown}")
    held_out = [
        corpus.batch(course.batch, _generator(seed, -1 - i), held_out=True).to(where)
        for i in range(HELD_OUT_BATCHES)
    ]
    return _finish(runner, held_out)


def _finish(r: Runner, held_out: list[Batch]) -> Run:
    run = Run(r.rule, r.constants.placement, tuple(r.losses), finding=r.finding)
    own = [] if r.finding else r.evaluate(held_out)
    if not (own and all(map(math.isfinite, own))):
        return run
    run = replace(run, held_out=statistics.fmean(own))
    if held_out[0].source is None:
        return run
    other = r.evaluate([b.shuffled() for b in held_out])
    if not all(map(math.isfinite, other)):
        return run
    reads = all(o > h for o, h in zip(other, own, strict=True))
    return replace(run, shuffled=statistics.fmean(other), reads_source=reads)


def _generator(seed: int, index: int) -> torch.Generator:
    """A generator of its own for every batch, so that every rule sees the same ones."""
    return torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)
