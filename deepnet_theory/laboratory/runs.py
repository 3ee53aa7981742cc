"""Short runs of a rule beside plain rivals, on windows of real text: the same batches, by seed.

A tenth of a text is held out in pieces spread evenly through it: its topic changes from start to
end.
"""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Unpack

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.definitions.constants import OF_A_BASE, Constants, SublayerConstants
from deepnet_theory.definitions.files import read_bytes
from deepnet_theory.definitions.optimizer import Reference, optimizers
from deepnet_theory.definitions.outcome import INTERRUPTION, InputError, Refusal, Verdict, shown
from deepnet_theory.definitions.record import ShortRun, Train, record
from deepnet_theory.definitions.scheme import scheme as published
from deepnet_theory.definitions.sublayer import sublayer
from deepnet_theory.definitions.training import Comparison, Run, Training
from deepnet_theory.laboratory.common_mode import CommonMode, Watch, columns, is_taken, warning
from deepnet_theory.laboratory.statistics import t_interval, what_decides
from deepnet_theory.laboratory.stepping import backward, library_optimizer
from deepnet_theory.laboratory.trial import text_bytes
from deepnet_theory.models.groups import parameter_groups
from deepnet_theory.processes import Job, Progress, Work, run_until_stopped, split
from deepnet_theory.runtime import build, start_head_
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.machine import device_called, fitting_threads, in_threads, repeatable
from deepnet_theory.runtime.model import Model

BYTES = 256
MAX_BYTES = 2**30
MAX_CYCLES = 20  # pieces that are held out, at most
HELD_OUT_BATCHES = 8


@dataclass(frozen=True)
class Batch:
    """Decoder input and targets (batch, tokens), and the source where the stack has two parts."""

    tokens: Tensor
    targets: Tensor
    source: Tensor | None = None

    def shuffled(self) -> Batch:
        """The same targets, each with the next example's source."""
        assert self.source is not None
        return Batch(self.tokens, self.targets, self.source.roll(1, 0))

    def to(self, device: torch.device) -> Batch:
        source = None if self.source is None else self.source.to(device)
        return Batch(self.tokens.to(device), self.targets.to(device), source)


class Text:
    """Windows of a text: each byte is predicted from those before it.

    For an encoder–decoder (``parts=2``) the source is one window, continued by the next. ``train``
    and ``held_out`` are (cycles, bytes): no window crosses from one piece into another.
    """

    def __init__(self, path: str | Path | None, tokens: int, parts: int = 1) -> None:
        if path is None:
            self.name, text = "the standard library's pydoc_data.topics", text_bytes()
        else:
            self.name, text = str(path), _read(Path(path))
        self.tokens, self.parts = tokens, parts
        if len(text) < 10 * self._span:
            raise InputError(
                f"the text {self.name!r} has {len(text)} bytes; windows of {tokens} tokens "
                f"need at least {10 * self._span}"
            )
        # cycles of ten pieces; the last is held out and has room for some windows
        self.cycles = max(1, min(MAX_CYCLES, len(text) // (40 * self._span)))
        self.piece = len(text) // (10 * self.cycles)
        cycles = text[: 10 * self.cycles * self.piece].view(self.cycles, -1)
        # of what is learnt from, whose name says nothing of its content
        self.digest = sha256(cycles.numpy().data).hexdigest()
        self.train, self.held_out = cycles[:, : -self.piece], cycles[:, -self.piece :]
        # no model that ignores its input has a mean loss below the entropy of what it is tried on
        self.baseline = min(entropy(self.train), entropy(self.held_out))

    @property
    def _span(self) -> int:
        return self.parts * self.tokens + 1

    @property
    def counts(self) -> Tensor:
        """How often each byte occurs in what is learnt from: (256,)."""
        return torch.bincount(self.train.flatten(), minlength=BYTES)

    def batch(self, size: int, generator: torch.Generator, *, held_out: bool = False) -> Batch:
        """Windows at random places, each within one run of training or held-out text."""
        runs = self.held_out if held_out else self.train  # (cycles, bytes)
        cycle = torch.randint(self.cycles, (size, 1), generator=generator)
        last = runs.shape[1] - self._span
        start = torch.randint(last + 1, (size, 1), generator=generator)
        # (batch, parts·tokens + 1)
        window = runs[cycle, start + torch.arange(self._span)].to(torch.int64)
        source = window[:, : self.tokens] if self.parts == 2 else None
        window = window[:, -self.tokens - 1 :]
        return Batch(window[:, :-1], window[:, 1:], source)

    def trials(self, size: int, generator: Callable[[int], torch.Generator]) -> list[Batch]:
        """The held-out windows that every model is judged on, by generators of -1, -2 and so on."""
        drawn = (generator(-1 - index) for index in range(HELD_OUT_BATCHES))
        return [self.batch(size, one, held_out=True) for one in drawn]


def entropy(symbols: Tensor) -> float:
    r"""The entropy :math:`-\sum p\ln p`, nats: the least loss of a model that ignores its input."""
    p = torch.bincount(symbols.flatten(), minlength=BYTES).double()
    p = p[p > 0] / p.sum()
    return -float((p * p.log()).sum()) if math.isfinite(float(p.sum())) else math.nan


def _read(path: Path) -> Tensor:
    raw = bytearray(read_bytes(path, MAX_BYTES))
    return torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)


# ---- a rule and its rivals ----


class Given(Train, Work, total=False):
    """What to train with, who does the work and who watches it."""


def train(
    constants: Constants | str | Path,
    **given: Unpack[Given],
) -> Training:
    """Train the model of the constants beside plain post-LN, plain pre-LN and GPT-2's pre-LN.

    With their optimizer, as torch or pytorch-optimizer has it, at its full ``lr`` from the first
    step: no warm-up, decay or clipping. Plain is α = β = 1; GPT-2's draws the last matrix of a
    branch smaller. All start from the same embedding and head and see the same batches of ``text``;
    the verdict is on held-out losses, paired by seed. One part predicts the next byte under a
    causal mask; an encoder–decoder continues one window by the next.

    A run is one rule with one seed, shared out and kept as ``work`` says; on Ctrl-C the result of
    those that are finished is returned. Raises :class:`InputError` for settings that cannot be run,
    :class:`Refusal` for constants whose optimizer no library has, and :class:`MissingExtraError`.
    """
    settings, work = split(given)
    asked = record(ShortRun, "a training", settings)
    steps, seeds = asked.steps, asked.seeds
    constants = checked(constants)
    constants.warn()
    if constants.architecture.vocab < BYTES:
        raise InputError(
            f"the constants have a vocabulary of {constants.architecture.vocab}; "
            f"text is trained on by bytes and needs at least {BYTES}"
        )
    reference = _reference(constants)
    library_optimizer(reference)  # one that is not installed is refused before the work
    where = device_called(asked.device)
    started = time.perf_counter()
    corpus = Text(asked.text, asked.tokens, len(constants.parts))
    rules = {
        f"{constants.placement}, the constants' rule": causal(constants),
        "plain post-LN": causal(plain(constants, "post-ln")),
        "plain pre-LN": causal(plain(constants, "pre-ln")),
        "GPT-2's pre-LN": causal(gpt_2(constants)),
    }
    conditions = {
        **asdict(asked), "optimizer": f"{reference.target}, no warm-up", "device": str(where),
        "corpus": corpus.name, "constants": constants.to_dict(),
    }  # fmt: skip
    del conditions["text"]  # it is the corpus
    # only in this process can every step be reported
    alone = work.get("executor") is None and work.get("processes") in (None, 1)
    progress = work.pop("progress", None) if alone else None
    count = fitting_threads(asked.batch * asked.tokens * constants.architecture.width)
    finished: dict[tuple[int, str], Run] = {}
    jobs: list[Job] = []
    total = seeds * len(rules) * steps
    for seed, (rule, its) in product(range(asked.seed, asked.seed + seeds), rules.items()):
        one = replace(asked, seed=seed, seeds=1, text=None, device=where.type)
        course = _Course(rule, its, reference, one)
        watch = None
        if progress is not None:
            watch = partial(_report, progress, len(jobs) * steps, total)
        jobs.append(
            Job(
                f"{rule}, seed {seed}", steps,
                partial(in_threads, count, partial(_train, course, corpus, watch)),
                partial(finished.__setitem__, (seed, rule)),
                depends_on=("train", course, corpus.digest, count),
                fits=partial(_fits, course),
            )
        )  # fmt: skip
    with repeatable(where):
        stopped = run_until_stopped(jobs, total, **work)
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
    drowned = {r.rule: warning(r.placement, r.common_mode_steps, r.common_mode) for r in runs}
    return Training(
        runs, corpus.baseline, verdict, because, conditions, time.perf_counter() - started,
        {"torch": torch.__version__, "python": platform.python_version()}, comparisons,
        stopped, tuple(f"{rule}: {sentence}" for rule, sentence in drowned.items() if sentence),
    )  # fmt: skip


def _fits(course: _Course, run: Run) -> bool:
    """Whether a kept run is one of this course: as long as it, or ended by what it found."""
    steps, wanted = len(run.losses), course.settings.steps
    ended = steps == wanted or (steps < wanted and run.finding != "")
    # the step that ended it may have been taken too
    taken = [tuple(filter(is_taken, range(n))) for n in (steps, steps + 1)]
    rows = (run.common_mode, run.token_cosine, run.branch_weights)
    whole = {len(run.common_mode_steps)} == {*map(len, rows)} and run.common_mode_steps in taken
    layers = {*map(len, run.branch_weights)} <= {course.constants.parts[-1].distinct}
    return ended and whole and layers and run.rule == course.rule


def _report(progress: Progress, before: int, total: int, done: int, what: str) -> None:
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
    references = {name: o.reference for name, o in optimizers().items() if o.reference is not None}
    if constants.optimizer not in references:
        update = f" ({shown(constants.update)})" if constants.update else ""
        raise Refusal(
            "train steps with the optimizer of the constants, and no library here has theirs, "
            f"{shown(constants.optimizer)}{update}; valid are: {', '.join(references)}"
        )
    return references[constants.optimizer]


@dataclass(frozen=True)
class _Course:
    """All that one run depends on, beside the text."""

    rule: str
    constants: Constants
    reference: Reference
    settings: ShortRun


def _train(course: _Course, corpus: Text, watch: Callable[[int, str], None] | None = None) -> Run:
    """All steps of one rule with one seed, and the held-out losses."""
    c, asked = course.constants, course.settings
    seed, where = asked.seed, torch.device(asked.device)
    # embedding and head have a generator of their own and are the same in every run
    outer, inner = _generator(seed, 0), _generator(seed, 1)
    model = build(c, generator=inner, embedding_generator=outer).to(where)
    if c.architecture.head_bias:
        start_head_(model.head, F.pad(corpus.counts, (0, c.architecture.vocab - BYTES)))
    optimizer = library_optimizer(course.reference)(parameter_groups(model, asked.lr), lr=asked.lr)
    losses, finding, common = list[float](), "", dict[int, CommonMode]()
    for step in range(asked.steps):
        batch = corpus.batch(asked.batch, _generator(seed, step)).to(where)
        taken = Watch(model) if is_taken(step) else None  # it walks through the modules
        with torch.random.fork_rng(), nullcontext() if taken is None else taken.watching():
            torch.manual_seed(step)  # dropout is the same in whichever process
            loss = cross_entropy(model, batch)
        if taken is not None and taken.found:
            (common[step],) = taken.found
        value = float(loss.detach())
        if not math.isfinite(value):
            finding = f"the loss was {value} at step {step}"
            break
        optimizer.zero_grad()
        backward(loss)
        optimizer.step()
        losses.append(value)
        if watch is not None:
            watch(step + 1, f"{course.rule}, seed {seed}: {value:.2f}")
    run = Run(
        course.rule, c.placement, tuple(losses), finding=finding,
        **columns([*common], [[*common.values()]]),
    )  # fmt: skip
    held_out = corpus.trials(asked.batch, partial(_generator, seed))
    return run if finding else _judged(run, model, [batch.to(where) for batch in held_out])


def _judged(run: Run, model: Model, held_out: Sequence[Batch]) -> Run:
    """A run with its held-out losses, as far as they are finite."""
    if not (losses := _evaluated(model, held_out)):
        return run
    run = replace(run, held_out=statistics.fmean(losses))
    if held_out[0].source is None:
        return run
    if not (shuffled := _evaluated(model, [b.shuffled() for b in held_out])):
        return run
    reads = all(another > its for another, its in zip(shuffled, losses, strict=True))
    return replace(run, shuffled=statistics.fmean(shuffled), reads_source=reads)


@torch.no_grad()
def _evaluated(model: Model, batches: Sequence[Batch]) -> list[float]:
    """The loss of every batch; none where one is not finite."""
    model.eval()
    losses = [float(cross_entropy(model, b)) for b in batches]
    return losses if all(map(math.isfinite, losses)) else []


def _generator(seed: int, index: int) -> torch.Generator:
    """A generator of its own for every batch, so that every rule sees the same ones."""
    return torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)


def plain(constants: Constants, placement: str) -> Constants:
    """The rival: the same sizes, α = β = 1 and no learning-rate multipliers."""
    return replace(
        constants,
        placement=placement,
        eta=1.0,
        form="forward",
        warning="",
        condition="",
        **OF_A_BASE,
        parts=tuple(
            replace(
                p,
                multipliers={},
                sublayers=tuple(
                    SublayerConstants(s.kind, 1.0, 1.0, parallel=s.parallel) for s in p.sublayers
                ),
            )
            for p in constants.parts
        ),
    )


def gpt_2(constants: Constants) -> Constants:
    """Plain pre-LN with the scheme's gain of last matrices; N counts layers of two sublayers."""
    scheme = published("gpt-2")
    (part,) = scheme.parts
    (gain,) = set(part.gains.values())
    bare = plain(constants, "pre-ln")
    parts = []
    for p in bare.parts:
        value = scheme.value(gain, N=p.layers * len(p.sublayers) / 2)
        last = (replace(s, gains={sublayer(s.kind).last_map[0]: value}) for s in p.sublayers)
        parts.append(replace(p, sublayers=tuple(last)))
    return replace(bare, parts=tuple(parts))


def causal(constants: Constants) -> Constants:
    """The same constants with a causal last part, and their warning already said."""
    *before, last = constants.parts
    return replace(constants, parts=(*before, replace(last, causal=True)), warning="")


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """The mean cross-entropy per target byte, in nats."""
    logits = model(batch.tokens, batch.source)
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())


def mean_run(seeds: Sequence[Run]) -> Run:
    """One rule's runs with several seeds as one: every number the mean over them."""
    first = seeds[0]
    rows = [zip(r.common_mode, r.token_cosine, r.branch_weights, strict=True) for r in seeds]
    taken = [[CommonMode(*row) for row in run] for run in rows]
    losses = zip(*(run.losses for run in seeds), strict=False)  # as far as all of them went
    mean = replace(
        first, losses=tuple(map(statistics.fmean, losses)),
        **columns(first.common_mode_steps, taken), held_out=None, shuffled=None,
        finding=next((run.finding for run in seeds if run.finding), ""),
    )  # fmt: skip
    held_out = tuple(run.held_out for run in seeds if run.held_out is not None)
    if len(held_out) < len(seeds):
        return mean
    shuffled = [run.shuffled for run in seeds if run.shuffled is not None]
    return replace(
        mean,
        held_out=statistics.fmean(held_out),
        held_out_by_seed=held_out,
        shuffled=statistics.fmean(shuffled) if shuffled else None,
        reads_source=all(run.reads_source for run in seeds) if shuffled else None,
    )


def compare(run: Run, rival: Run) -> Comparison:
    """The rule's held-out loss beside a rival's, seed by seed."""
    pairs = zip(run.held_out_by_seed, rival.held_out_by_seed, strict=False)
    differences = [a - b for a, b in pairs]
    if not differences:
        return Comparison(rival.rule)
    interval = t_interval(differences)
    ends = (interval.low, interval.high)
    low, high = (end if math.isfinite(end) else None for end in ends)
    open_ = low is None or high is None or low <= 0 <= high
    more = what_decides(interval, 0.0) if open_ else ""
    return Comparison(rival.rule, interval.estimate, low, high, more)


def judge(
    runs: Sequence[Run], comparisons: Sequence[Comparison], baseline: float
) -> tuple[Verdict, str]:
    """SUPPORTED where the first run's loss is below every rival's, REFUTED where above one's.

    Below and above are said of the whole interval of the difference. SUPPORTED needs all rivals
    beaten at once, and REFUTED errs at most as often as its two intervals together, once in
    twenty. A loss that stopped being finite is REFUTED, and a rival's is beaten. An
    encoder–decoder must read its source as well: a decoder alone is a language model of the
    targets. Anything else is UNDECIDED.
    """
    first, *rivals = runs
    if first.finding:
        return Verdict.REFUTED, f"{first.rule}: {first.finding}"
    if first.held_out is None:
        return Verdict.UNDECIDED, f"stopped after {len(first.losses)} steps"
    beaten = {rival.rule for rival in rivals if rival.finding}
    beaten |= {c.rival for c in comparisons if c.high is not None and c.high < 0}
    better = [c for c in comparisons if c.low is not None and c.low > 0]
    compared = better or [c for c in comparisons if c.difference is not None]
    losses = f"held-out loss {first.held_out:.3f}" + "".join(f", {c}" for c in compared)
    losses += "".join(f"; {rival.rule}: {rival.finding}" for rival in rivals if rival.finding)
    losses += f"; unigram entropy {baseline:.3f}"
    if first.shuffled is not None:
        losses += f", {first.shuffled:.3f} with another's source"
    if better:
        verb = "is" if len(better) == 1 else "are"
        return Verdict.REFUTED, f"{' and '.join(c.rival for c in better)} {verb} better: {losses}"
    if first.reads_source is False:
        return Verdict.UNDECIDED, f"{losses}: the decoder does not read its source"
    if len(beaten) == len(rivals):
        return Verdict.SUPPORTED, f"better than its rivals: {losses}"
    close = " and ".join(r.rule for r in rivals if r.rule not in beaten)
    return Verdict.UNDECIDED, f"not distinguished from {close}: {losses}"
