"""The loop: every model takes the same step on the same batch, side by side, seed by seed."""

from __future__ import annotations

import io
import math
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.numeric.stepping.gradients import backward
from deepnet_theory.numeric.stepping.reference import library_optimizer
from deepnet_theory.processes import Cache, Job, Progress, run_until_stopped, silent
from deepnet_theory.runtime import build, parameter_groups
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.machine import device_called, fitting_threads, in_threads, repeatable
from deepnet_theory.spec.constants import LARGEST, Constants, SublayerConstants
from deepnet_theory.spec.errors import INTERRUPTION, InputError, Refusal, shown
from deepnet_theory.spec.files import read_bytes, require_writable, write_bytes
from deepnet_theory.spec.optimizer import Reference, optimizers
from deepnet_theory.spec.scheme import scheme as published
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.sublayer import sublayer
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.training.corpus import (
    BYTES,
    IGNORED,
    MAX_BYTES,
    Batch,
    Corpus,
    Text,
    Translation,
)
from deepnet_theory.training.result import Run, Training, compare, judge, mean_run

HELD_OUT_BATCHES = 8
MOST = 2**20  # steps, windows and bytes: far more than a short run has
MOST_BYTES = 2**36  # of a state


@dataclass
class Runner:
    """A model in training."""

    rule: str
    constants: Constants
    model: nn.Module
    optimizer: torch.optim.Optimizer
    losses: list[float] = field(default_factory=list)
    finding: str = ""

    def step(self, batch: Batch) -> None:
        """One step of the optimizer; a loss that is not finite ends the run, and is its finding."""
        if self.finding:
            return
        with torch.random.fork_rng():  # dropout is the same in a resumed run
            torch.manual_seed(len(self.losses))
            loss = cross_entropy(self.model, batch)
        value = float(loss.detach())
        if not math.isfinite(value):
            self.finding = f"the loss was {value} at step {len(self.losses)}"
            return
        self.optimizer.zero_grad()
        backward(loss)
        self.optimizer.step()
        self.losses.append(value)

    def take_up(self, saved: dict[str, Any], done: int) -> None:
        """Go on from what was saved after ``done`` steps; raises where that does not fit."""
        losses, finding = saved["losses"], saved["finding"]
        whole = len(losses) == done or (finding and len(losses) < done)
        if not (type(done) is int and whole and isinstance(finding, str)):
            raise ValueError("the losses are not those of so many steps")
        if not all(type(loss) is float and math.isfinite(loss) for loss in losses):
            raise ValueError("a loss is not finite")
        for parameter in self.model.parameters():  # a step of nothing makes the optimizer's state
            parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad()
        own = self.optimizer.state_dict()
        if _shapes(saved["optimizer"]) != _shapes(own["state"]) and losses:
            raise ValueError("the optimizer's state is of other parameters")
        self.optimizer.load_state_dict({**own, "state": saved["optimizer"]})
        self.model.load_state_dict(saved["model"])
        self.losses, self.finding = list(losses), finding

    @torch.no_grad()
    def evaluate(self, batches: list[Batch]) -> list[float]:
        """The loss of every held-out batch."""
        self.model.eval()
        losses = [float(cross_entropy(self.model, b)) for b in batches]
        self.model.train()
        return losses


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
    kept = None if state is None else _State(Path(state), conditions)
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
    kept: _State | None = None,
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
    kept: _State | None,
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


def plain(constants: Constants, placement: str) -> Constants:
    """The rival: the same sizes, α = β = 1 and no learning-rate multipliers."""
    return replace(
        constants,
        placement=placement,
        eta=1.0,
        form="forward",
        warning="",
        parts=tuple(
            replace(
                p,
                multipliers={},
                sublayers=tuple(SublayerConstants(s.kind, 1.0, 1.0) for s in p.sublayers),
            )
            for p in constants.parts
        ),
    )


def gpt_2(constants: Constants) -> Constants:
    """The rival of GPT-2: plain pre-LN whose branches' last matrices have the scheme's gain.

    Its N counts layers of two residual sublayers; others are counted as so many halves.
    """
    scheme = published("gpt-2")
    (part,) = scheme.parts
    (gain,) = set(part.gains.values())
    bare = plain(constants, "pre-ln")
    parts = []
    for p in bare.parts:
        value = scheme.value(gain, N=p.layers * len(p.sublayers) / 2)
        own = (replace(s, gains={sublayer(s.kind).last_map[0]: value}) for s in p.sublayers)
        parts.append(replace(p, sublayers=tuple(own)))
    return replace(bare, parts=tuple(parts))


def causal(constants: Constants) -> Constants:
    """The same constants with a causal last part, so that the next byte is not in sight.

    What they warn of is said once, where they are read, and not at every build.
    """
    *before, last = constants.parts
    return replace(constants, parts=(*before, replace(last, causal=True)), warning="")


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """The mean cross-entropy per target byte, in nats."""
    logits = model(batch.tokens, batch.source, memory_padding=batch.source_padding)
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)


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


def _shapes(state: dict[int, dict[str, Any]]) -> dict[int, dict[str, object]]:
    """What an optimizer keeps of each parameter, by its shape; what is no tensor by its type."""
    return {
        i: {k: v.shape if isinstance(v, Tensor) else type(v) for k, v in kept.items()}
        for i, kept in state.items()
    }


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


class _State:
    """The file that a training is taken up from: what every seed has reached, by its number."""

    def __init__(self, file: Path, conditions: dict[str, Any]) -> None:
        self.file, self.conditions = file, conditions
        self.seeds: dict[int, dict[str, Any]] = {}
        require_writable(file)  # before the work that it is to hold
        if not file.exists():
            return
        content = io.BytesIO(read_bytes(file, MOST_BYTES))
        try:
            saved = torch.load(content, map_location="cpu", weights_only=True)
            before, seeds = dict(saved["conditions"]), dict(saved["seeds"])
        except Exception:  # a damaged file fails in as many ways as it can be damaged
            raise self._damaged() from None
        # more steps are the purpose of taking it up
        wrong = [k for k in conditions if k != "steps" and before.get(k) != conditions[k]]
        if wrong:
            raise InputError(f"{str(file)!r} is of another run: its {wrong[0]} differs")
        self.seeds = seeds

    def save(self, seed: int, runners: list[Runner], done: int) -> None:
        """Keep what this seed has reached."""
        models = [
            {
                "model": r.model.state_dict(),
                "optimizer": r.optimizer.state_dict()["state"],
                "losses": r.losses,
                "finding": r.finding,
            }
            for r in runners
        ]
        self.seeds[seed] = {"done": done, "runners": models}
        content = io.BytesIO()
        torch.save({"conditions": self.conditions, "seeds": self.seeds}, content)
        write_bytes(self.file, content.getvalue())

    def take_up(self, seed: int, runners: list[Runner]) -> int:
        """Bring the runners to where this seed is; returns the number of steps done."""
        if seed not in self.seeds:
            return 0
        try:
            done = self.seeds[seed]["done"]
            for r, s in zip(runners, self.seeds[seed]["runners"], strict=True):
                r.take_up(s, done)
        except Exception:
            raise self._damaged() from None
        if done > self.conditions["steps"]:
            raise InputError(f"{str(self.file)!r} is further on, at step {done}")
        return int(done)

    def _damaged(self) -> InputError:
        return InputError(
            f"{str(self.file)!r} is not the state of a training run (damaged or truncated?)"
        )
