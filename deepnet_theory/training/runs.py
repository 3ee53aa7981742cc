"""The loop: every model takes the same step on the same batch, side by side, seed by seed."""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from deepnet_theory.numeric.stepping.reference import library_optimizer
from deepnet_theory.processes import Cache, Job, Progress, run_until_stopped, silent
from deepnet_theory.runtime import build, parameter_groups
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.machine import device_called, fitting_threads, in_threads, repeatable
from deepnet_theory.spec.constants import LARGEST, Constants
from deepnet_theory.spec.errors import INTERRUPTION, InputError, Refusal, shown
from deepnet_theory.spec.files import read_bytes
from deepnet_theory.spec.optimizer import Reference, optimizers
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.training.corpus import (
    BYTES,
    MAX_BYTES,
    Batch,
    Corpus,
    Text,
    Translation,
)
from deepnet_theory.training.references import causal, gpt_2, plain
from deepnet_theory.training.result import Run, Training, compare, judge, mean_run
from deepnet_theory.training.runner import Runner
from deepnet_theory.training.state import State

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
    state: str | Path | None = None,
    progress: Progress | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Cache | None = None,
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

    ``state`` names a file that is written every tenth of the way; a later call with the same
    settings goes on from there. On Ctrl-C the partial result is returned. ``processes``, or an
    ``executor``, share out the seeds, and ``cache`` keeps each that is finished. Raises
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
    kept = None if state is None else State(Path(state), conditions)
    alone = executor is None and processes in (None, 1)
    if kept is not None and not alone:
        raise InputError(
            f"the state {shown(str(state))} is one process's: leave it out, or the other processes"
        )
    finished: dict[int, tuple[Run, ...]] = {}
    broken_off: dict[int, tuple[Run, ...]] = {}

    def keep(index: int, found: tuple[tuple[Run, ...], bool]) -> None:
        (finished if found[1] else broken_off)[index] = found[0]
        if not found[1]:
            raise KeyboardInterrupt

    count = fitting_threads(batch * tokens * constants.architecture.width)
    learnt_from = sha256(read_bytes(text, MAX_BYTES)).hexdigest() if text and cache else language
    jobs = []
    for index in range(seeds):
        one = {**conditions, "seed": seed + index}
        del one["seeds"]  # of which each is its own
        work = partial(_train_seed, rules, reference, corpus, conditions, index)
        # only here, at once, can a state be written and every step be told of
        told = partial(work, kept, progress) if alone else work
        jobs.append(
            Job(
                f"seed {seed + index}", steps, partial(in_threads, count, told),
                partial(keep, index), depends_on=("train", one, learnt_from, count),
                lasting=_whole,
            )
        )  # fmt: skip
    watched = silent if alone or progress is None else progress
    with repeatable(where):
        stopped = run_until_stopped(
            jobs,
            seeds * steps,
            processes=processes,
            executor=executor,
            progress=watched,
            cache=cache,
        )
    done = [finished[i] for i in sorted(finished)] or list(broken_off.values())
    if not done:
        if stopped == INTERRUPTION:
            raise KeyboardInterrupt
        raise InputError(f"{stopped}: a smaller batch, fewer tokens or processes need less")
    whole = not stopped
    runs = tuple(map(mean_run, zip(*done, strict=True)))
    comparisons = tuple(compare(runs[0], rival) for rival in runs[1:])
    verdict, because = judge(runs, comparisons, corpus.baseline)
    if not whole:
        verdict = Verdict.UNDECIDED
        because = f"{stopped}: {len(finished)} of {seeds} seeds were trained"
    for index, found in broken_off.items():
        because = f"stopped after {len(found[0].losses)} of {steps} steps of seed {seed + index}"
    return Training(
        runs, corpus.baseline, verdict, because, conditions, time.perf_counter() - started,
        {"torch": torch.__version__, "python": platform.python_version()}, comparisons, whole,
    )  # fmt: skip


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


def _whole(found: tuple[tuple[Run, ...], bool]) -> bool:
    """Whether a seed came to its end."""
    return found[1]


def _train_seed(
    rules: dict[str, Constants],
    reference: Reference,
    corpus: Corpus,
    conditions: dict[str, Any],
    index: int,
    kept: State | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[Run, ...], bool]:
    """The runs of one seed, whose models are there as long as it is trained."""
    optimizer, seed = library_optimizer(reference), conditions["seed"] + index
    where = torch.device(conditions["device"])
    runners = [_runner(r, c, optimizer, conditions["lr"], seed, where) for r, c in rules.items()]
    return _run(runners, corpus, conditions, index, kept, progress)


def _run(
    runners: list[Runner],
    corpus: Corpus,
    conditions: dict[str, Any],
    index: int,
    kept: State | None,
    progress: Progress | None,
) -> tuple[tuple[Run, ...], bool]:
    """All steps of one seed and the held-out losses, and whether it was not interrupted."""
    steps, batch, seeds = conditions["steps"], conditions["batch"], conditions["seeds"]
    seed = conditions["seed"] + index
    where = torch.device(conditions["device"])
    done = 0 if kept is None else kept.take_up(index, runners)
    whole = True
    for step in range(done, steps):
        try:
            shared = corpus.batch(batch, _generator(seed, step)).to(where)
            for runner in runners:
                runner.step(shared)
            if progress is not None:
                now = ", ".join(f"{r.rule} {r.losses[-1]:.2f}" for r in runners if r.losses)
                progress(index * steps + step + 1, seeds * steps, now)
        except KeyboardInterrupt:
            for runner in runners:  # some may have taken this step already
                del runner.losses[step:]
            whole = False
            break
        if kept is not None and ((step + 1) % max(1, steps // 10) == 0 or step + 1 == steps):
            kept.save(index, runners, step + 1)
    held_out = [
        corpus.batch(batch, _generator(seed, -1 - i), held_out=True).to(where)
        for i in range(HELD_OUT_BATCHES)
    ]
    return tuple(_finish(r, held_out, whole) for r in runners), whole


def _runner(
    rule: str,
    c: Constants,
    optimizer: Callable[..., torch.optim.Optimizer],
    lr: float,
    seed: int,
    device: torch.device,
) -> Runner:
    # embedding and head have a generator of their own and are the same in every run
    outer, inner = _generator(seed, 0), _generator(seed, 1)
    model = build(c, generator=inner, embedding_generator=outer).to(device)
    return Runner(rule, c, model, optimizer(parameter_groups(model, lr), lr=lr))


def _finish(r: Runner, held_out: list[Batch], whole: bool) -> Run:
    run = Run(r.rule, r.constants.placement, tuple(r.losses), finding=r.finding)
    own = r.evaluate(held_out) if whole and not r.finding else []
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
    """A generator of its own for every batch, so that a resumed run sees the same ones."""
    return torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)
