"""The loop: every model takes the same step on the same batch, side by side."""

from __future__ import annotations

import io
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.numeric.stacks.threads import LARGE
from deepnet_theory.runtime import build, parameter_groups
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.files import write_bytes
from deepnet_theory.training.corpus import BYTES, IGNORED, Batch, Corpus, Text, Translation
from deepnet_theory.training.result import Run, Training, judge

Progress = Callable[[float, float, str], None]
HELD_OUT_BATCHES = 8


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
        """One step of Adam; a loss that is not finite ends the run, and is its finding."""
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
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.losses.append(value)

    @torch.no_grad()
    def evaluate(self, batches: list[Batch]) -> list[float]:
        """The loss of every held-out batch."""
        self.model.eval()
        losses = [float(cross_entropy(self.model, b)) for b in batches]
        self.model.train()
        return losses


def train(
    constants: Constants,
    *,
    text: str | Path | None = None,
    steps: int = 300,
    batch: int = 8,
    tokens: int = 64,
    lr: float = 3e-4,
    seed: int = 0,
    device: str = "auto",
    language: str = "de",
    state: str | Path | None = None,
    progress: Progress | None = None,
) -> Training:
    """Train the model of the constants beside plain post-LN and plain pre-LN (α = β = 1).

    Adam from the first step at its full learning rate, no warm-up, no weight decay, no
    clipping; the constants' own run takes their learning-rate multipliers. The three runs
    start from the same embedding and head and see the same batches.

    One part predicts the next byte of ``text`` (an encoder is trained with a causal mask,
    without which the task would be copying); an encoder–decoder translates Django's messages,
    or with ``text`` continues one window by the next.

    The useful ``lr`` depends on the rule's closure, and through it on depth: all closures
    balance the same first-order update, but Adam moves a matrix by lr whatever its size, so that
    the relative change of the scaled ones is of order lr/β, √(2N)·lr under the symmetric closure.
    At width 64 and lr 1e-3 one step moves them by 0.073 of their size at 25 layers and 0.146 at
    100, and the held-out loss after 100 steps is 2.80 and 3.31 (unigram entropy 3.24); under
    ``unit-init`` (β = 1) by 0.010 at both, with losses 2.72 and 2.73
    (``benchmarks/learning_rate.py``).

    ``state`` names a file that is written every tenth of the way; a later call with the same
    settings goes on from there. On Ctrl-C the partial result is returned. Raises
    :class:`InputError` for settings that cannot be run and :class:`MissingExtraError` where
    the translations are not installed.
    """
    for name, number in (("steps", steps), ("batch", batch), ("tokens", tokens)):
        if type(number) is not int or number < 1:
            raise InputError(f"{name} must be a positive integer, not {number!r}")
    if not (math.isfinite(lr) and lr > 0):
        raise InputError(f"lr must be positive, not {lr!r}")
    if constants.architecture.vocab < BYTES:
        raise InputError(
            f"the constants have a vocabulary of {constants.architecture.vocab}; "
            f"text is trained on by bytes and needs at least {BYTES}"
        )
    where = _device(device)
    started = time.perf_counter()
    parts = len(constants.parts)
    translates = parts == 2 and text is None
    corpus: Corpus = Translation(tokens, language) if translates else Text(text, tokens, parts)
    runners = [
        _runner(rule, c, lr, seed, where)
        for rule, c in (
            (f"{constants.placement}, the constants' rule", causal(constants)),
            ("plain post-LN", causal(plain(constants, "post-ln"))),
            ("plain pre-LN", causal(plain(constants, "pre-ln"))),
        )
    ]
    conditions = {
        "corpus": corpus.name, "steps": steps, "batch": batch, "tokens": tokens, "lr": lr,
        "optimizer": "Adam, no warm-up", "seed": seed, "device": str(where),
        "constants": constants.to_dict(),
    }  # fmt: skip
    file = None if state is None else Path(state)
    done = 0 if file is None or not file.exists() else _resume(file, runners, conditions)
    with _fitting_threads(batch * tokens * constants.architecture.width):
        runs = _run(runners, corpus, conditions, done, file, progress)
    verdict, because = judge(runs[0], corpus.baseline, steps)
    return Training(
        runs, corpus.baseline, verdict, because, conditions, time.perf_counter() - started,
        {"torch": torch.__version__, "python": platform.python_version()},
    )  # fmt: skip


def _run(
    runners: list[Runner],
    corpus: Corpus,
    conditions: dict[str, Any],
    done: int,
    file: Path | None,
    progress: Progress | None,
) -> tuple[Run, ...]:
    """Every step from ``done`` on, then the held-out losses."""
    steps, batch, seed = conditions["steps"], conditions["batch"], conditions["seed"]
    where = torch.device(conditions["device"])
    interrupted = False
    for step in range(done, steps):
        try:
            shared = corpus.batch(batch, _generator(seed, step)).to(where)
            for runner in runners:
                runner.step(shared)
            if progress is not None:
                now = ", ".join(f"{r.rule} {r.losses[-1]:.2f}" for r in runners if r.losses)
                progress(step + 1, steps, now)
        except KeyboardInterrupt:
            for runner in runners:  # some may have taken this step already
                del runner.losses[step:]
            interrupted = True
            break
        if file is not None and (step + 1) % max(1, steps // 10) == 0:
            _save(file, runners, conditions, step + 1)
    held_out = [
        corpus.batch(batch, _generator(seed, -1 - i), held_out=True).to(where)
        for i in range(HELD_OUT_BATCHES)
    ]
    return tuple(_finish(r, held_out, interrupted) for r in runners)


@contextmanager
def _fitting_threads(activations: int) -> Iterator[None]:
    """One thread for small work, where two wait for each other; torch's choice for large."""
    before = torch.get_num_threads()
    if activations < LARGE:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def plain(constants: Constants, placement: str) -> Constants:
    """The rival: the same sizes, α = β = 1 and no learning-rate multipliers."""
    return replace(
        constants,
        placement=placement,
        eta=1.0,
        parts=tuple(
            replace(
                p,
                multipliers={},
                sublayers=tuple(replace(s, alpha=1.0, beta=1.0) for s in p.sublayers),
            )
            for p in constants.parts
        ),
    )


def causal(constants: Constants) -> Constants:
    """The same constants with a causal last part, so that the next byte is not in sight."""
    *before, last = constants.parts
    return replace(constants, parts=(*before, replace(last, causal=True)))


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """The mean cross-entropy per target byte, in nats."""
    logits = model(batch.tokens, batch.source, memory_padding=batch.source_padding)
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)


def _runner(rule: str, c: Constants, lr: float, seed: int, device: torch.device) -> Runner:
    # embedding and head have a generator of their own and are the same in every run
    outer, inner = _generator(seed, 0), _generator(seed, 1)
    model = build(c, generator=inner, embedding_generator=outer).to(device)
    optimizer = torch.optim.Adam(parameter_groups(model, lr), fused=True)
    return Runner(rule, c, model, optimizer)


def _finish(r: Runner, held_out: list[Batch], interrupted: bool) -> Run:
    run = Run(r.rule, r.constants.placement, tuple(r.losses), finding=r.finding)
    own = [] if r.finding or interrupted else r.evaluate(held_out)
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


def _device(name: str) -> torch.device:
    valid = ("auto", "cpu", "cuda")
    if name not in valid:
        raise InputError(f"unknown device {name!r}; valid are: {', '.join(valid)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' is not there; valid are: auto, cpu")
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(auto if name == "auto" else name)


def _save(file: Path, runners: list[Runner], conditions: dict[str, Any], done: int) -> None:
    content = io.BytesIO()
    models = [
        {
            "model": r.model.state_dict(),
            "optimizer": r.optimizer.state_dict(),
            "losses": r.losses,
            "finding": r.finding,
        }
        for r in runners
    ]
    torch.save({"conditions": conditions, "done": done, "runners": models}, content)
    write_bytes(file, content.getvalue())


def _resume(file: Path, runners: list[Runner], conditions: dict[str, Any]) -> int:
    """Take up the state in ``file``; returns the number of steps done."""
    try:
        saved = torch.load(file, map_location="cpu", weights_only=True)
        same = {k: v for k, v in saved["conditions"].items() if k != "steps"}
        now = {k: v for k, v in conditions.items() if k != "steps"}
        if same != now:
            wrong = next(k for k in now if same.get(k) != now[k])
            raise InputError(f"{str(file)!r} is of another run: its {wrong} differs")
        for r, s in zip(runners, saved["runners"], strict=True):
            r.model.load_state_dict(s["model"])
            r.optimizer.load_state_dict(s["optimizer"])
            r.losses, r.finding = list(s["losses"]), str(s["finding"])
        return int(saved["done"])
    except InputError:
        raise
    except Exception:  # a damaged file fails in as many ways as it can be damaged
        raise InputError(
            f"{str(file)!r} is not the state of a training run (damaged or truncated?)"
        ) from None
