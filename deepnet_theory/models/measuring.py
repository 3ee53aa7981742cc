"""‖ΔF‖/η of a family of models of one's own, against depth."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from statistics import fmean

import numpy as np
import torch

from deepnet_theory.models.factory import factory_of
from deepnet_theory.models.family import ANSWER, Family, Measured, Scale
from deepnet_theory.models.first_step import first_step
from deepnet_theory.models.following import Followed
from deepnet_theory.numeric.common_mode import columns, warning
from deepnet_theory.numeric.judging import ALL, WORST_FIRST, Plan, judge_exponent, varies_alone
from deepnet_theory.numeric.model_update import ModelUpdate
from deepnet_theory.numeric.settings import Depth, depth_key, parse_depths, parse_widths
from deepnet_theory.numeric.statistics import positive_interval
from deepnet_theory.numeric.width import judge_power
from deepnet_theory.processes import (
    Job,
    Kept,
    Progress,
    cache_of,
    require_processes,
    run_until_stopped,
    travels,
)
from deepnet_theory.runtime import machine
from deepnet_theory.spec.constants import LARGEST
from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.results.prediction import Prediction
from deepnet_theory.spec.results.verification import (
    Exponent,
    Following,
    ModelMeasurement,
    Point,
    Share,
)
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.settings import MOST
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.verdict import Verdict

LAYERS = stack("encoder")  # whose depths are numbers of layers, N
MOST_SEEDS = 1024
Watch = Callable[[Point], None]  # receives each point as soon as it is measured


def measure(
    make_model: Callable[..., object] | str,
    depths: str | Iterable[object] | None = None,
    *,
    widths: str | Iterable[object] | None = None,
    optimizer: object = None,
    update: str | None = None,
    inputs: object = None,
    final_state: str | None = None,
    shares: Sequence[str] = (),
    updates: int = 0,
    eta: float | None = None,
    seeds: int = 8,
    seed: int = 0,
    progress: Progress | None = None,
    watch: Watch | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
) -> ModelMeasurement:
    r"""Measure ‖ΔF‖/η per token of one's own models at several depths: is it constant?

    .. math:: \frac{\|\Delta F\|}{\eta} = \lim_{s\to0} \frac1{s\,\eta\,T} \sum_{t=1}^{T}
              \|F_t(\theta + s\Delta\theta) - F_t(\theta)\|

    Δθ is the first step of a fresh ``optimizer`` (a name, a class of ``torch.optim``, or a
    function that receives a model and gives its optimizer) at its own learning rate η, or an
    ``update`` in eta, g and theta; a learning rate that changes with depth is counted in units of
    the first depth's. F (T tokens, width) is what enters the model's head, or the output of the
    module called ``final_state``.

    ``make_model(depth)`` gives a module, or a pair of it and its inputs; or it is a text
    ``FILE.py:FACTORY``. It is called with torch's generator seeded anew: each of the ``seeds`` is
    the same model at all depths as far as it is drawn in the same order. ``shares`` are patterns
    of parameter names, as ``"*.mlp.*"``, that are stepped alone, each with an exponent of its own.

    Across ``widths`` it is ``make_model(depth, width)``, or ``make_model(width)`` without depths,
    and every parameter is stepped alone: ‖ΔF‖ is then per entry of F, of the head's parameters the
    loss is taken, and an exponent in d says of each how far it is off, and what would mend it.

    With ``updates`` each model also takes that many steps of its optimizer, at ``eta`` or the
    optimizer's own rate. Followed are the loss, R (the summed weight of what the branches add to
    all tokens alike) and the cosine between tokens at F; a sentence warns where what is a token's
    own drowns, which the loss shows late. Each update takes ``inputs(step)`` where the inputs are
    a function, windows of text where they are token ids of our own, and else the one batch.

    ``processes`` or any ``executor`` of ``concurrent.futures`` share the seeds and depths, and the
    result is the same. ``cache`` (a folder, True for the user's own) keeps each that is finished
    where factory and optimizer are named by texts, or the optimizer is installed. It holds while
    the Python files in the folder of the named file, or of its package, every loaded module that
    is not installed, every file that was opened, and every variable of the environment that was
    read are as they were; a file that a compiled library opens by itself (safetensors, HDF5) is
    not seen. A function in memory is not kept, since variables that it reads may have changed,
    and one that cannot be pickled, as a lambda, runs in this process.

    Raises :class:`InputError` for a factory or settings that do not serve.

    Source: the model update of DeepNet, arXiv 2203.00555, §4.1, per unit of the learning rate.
    """
    began = time.perf_counter()
    wanted = _wanted(depths, widths)
    drawn = seeds_from(seed, seeds)
    if type(updates) is not int or not 0 <= updates <= MOST:
        raise InputError(f"updates {shown(updates)} is not a whole number from 0 to {MOST}")
    if eta is not None and not (updates and isinstance(eta, int | float) and 0 < eta <= LARGEST):
        needs = "is not a number above 0" if updates else "is the rate of updates: give both"
        raise InputError(f"eta {shown(eta)} {needs}")
    count = require_processes(1 if processes is None else processes)
    factory = factory_of(make_model)
    step = first_step(optimizer, update)
    dtype = torch.get_default_dtype()
    family = Family(factory, step, inputs, final_state, tuple(shares), dtype)
    rows = {depth_key(d): _Row(d, drawn) for d in wanted}
    total = sum(map(cost_of, wanted)) * seeds * (1 + updates)
    if (count > 1 or executor is not None) and not travels(family):
        count, executor = 1, None
    kept = cache_of(cache)
    known = None if kept is None else family.depends_on()
    schedule = _Schedule(family, list(rows.values()), watch, known, updates, eta)
    stopped = run_until_stopped(
        [schedule.first()], total, processes=count, executor=executor, progress=progress, cache=kept
    )
    measured = [row for row in rows.values() if row.complete]
    same = seeds > 1 and any(row.alike for row in measured)
    if same:  # repeating one seed gives no interval
        measured = [row.of_first_seed() for row in measured]
    if widths is None:
        names = (ALL, *dict.fromkeys(shares))
        exponents = tuple(_exponent(name, measured, len(wanted)) for name in names)
    else:
        exponents = tuple(_in_width(measured)) if len(measured) == len(wanted) else ()
    warnings = [row.update.finding for row in measured if row.update.finding]
    followed = [row for row in rows.values() if len(row.followed) == seeds * bool(updates) > 0]
    warnings += _drowning(followed)
    if stopped:
        warnings.append(f"{stopped}: {len(measured)} of {len(wanted)} depths were measured")
    if same:
        warnings.append(
            f"{factory.name} gives the same model at all {seeds} seeds (does it set a seed "
            "itself?): the first seed alone counts, and one gives no interval"
        )
    return ModelMeasurement(
        model=factory.name,
        optimizer=family.step.name,
        measure={
            "depths": list(rows), "seeds": seeds, "seed": seed, "final_state": final_state,
            **({"updates": updates, "eta": eta} if updates else {}),
        },
        points=tuple(row.point() for row in measured),
        exponents=exponents,
        shares=measured[-1].shares() if measured else (),
        verdict=Verdict.UNDECIDED if stopped else _verdict(exponents),
        device=next((m.device for row in measured for m in row.found.values()), "cpu"),
        seconds=time.perf_counter() - began,
        versions={"python": platform.python_version(), "torch": torch.__version__},
        warnings=tuple(warnings),
        stopped=stopped,
        updates=tuple(row.following() for row in followed),
    )  # fmt: skip


def _drowning(rows: Sequence[_Row]) -> Iterator[str]:
    """One sentence for all depths where what is a token's own drowns."""
    said = {}
    for row in rows:
        of, normed = row.following(), row.followed[row.seeds[0]].normed
        like = "post-ln" if normed else "pre-ln"  # in what a norm on the sums does
        if sentence := warning(like, of.common_mode_steps, of.common_mode):
            said[", ".join(f"{symbol} = {n}" for symbol, n in row.depth.items())] = sentence
    if said:
        yield f"at {'; '.join(said)}: {next(iter(said.values()))}"


def _wanted(
    depths: str | Iterable[object] | None, widths: str | Iterable[object] | None
) -> tuple[Depth, ...]:
    """The depths, the widths, or every pair of them; two or three are needed for an exponent."""
    if depths is None and widths is None:
        raise InputError("give depths, such as 6,12,24, or widths, such as 64,128,256")
    layers = ({},) if depths is None else parse_depths(depths, LAYERS)
    if widths is None:
        if len(layers) < 2:
            raise InputError(f"the depths {shown(depths)} give no exponent: two or more are needed")
        return layers
    return tuple({**one, "d": width} for one in layers for width in parse_widths(widths))


def cost_of(place: Depth) -> int:
    """The work of a model of these layers and this width, in units of one of each."""
    return place.get("N", 1) * place.get("d", 1) ** 2


def seeds_from(seed: int, count: int) -> range:
    """As many seeds from one on; raises :class:`InputError`."""
    if type(count) is not int or not 1 <= count <= MOST_SEEDS:
        raise InputError(f"seeds {shown(count)} is not a whole number from 1 to {MOST_SEEDS}")
    require_seed(seed)
    return range(seed, seed + count)


def _verdict(exponents: Sequence[Exponent]) -> Verdict:
    """The whole's in depth; in width the worst of all parameters."""
    if exponents and exponents[0].variable == "N":
        return exponents[0].verdict
    return min((e.verdict for e in exponents), key=WORST_FIRST.index, default=Verdict.UNDECIDED)


@dataclass(frozen=True)
class _Row:
    """What has been measured at one depth, by seed."""

    depth: Depth
    seeds: Sequence[int]
    found: dict[int, Measured] = field(default_factory=dict)
    followed: dict[int, Followed] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all seeds are there."""
        return len(self.found) == len(self.seeds)

    @property
    def update(self) -> ModelUpdate:
        """The step of the first seed."""
        update = self.found[self.seeds[0]].update
        assert update is not None
        return update

    @property
    def alike(self) -> bool:
        """Whether all seeds have the same weights."""
        return len({found.weights for found in self.found.values()}) == 1

    def of_first_seed(self) -> _Row:
        """What the first seed alone has given."""
        first = self.seeds[:1]
        return _Row(self.depth, first, {seed: self.found[seed] for seed in first})

    def values(self, name: str = ALL) -> tuple[float, ...]:
        """‖ΔF‖/η, one value a seed."""
        return tuple(self.found[seed].sizes[name] for seed in self.seeds)

    def point(self) -> Point:
        """The mean over seeds and its interval."""
        interval = positive_interval(self.values())
        return Point(
            dict(self.depth), interval.estimate, interval.low, interval.high, len(self.seeds),
            values=self.values(), finding=self.update.finding,
        )  # fmt: skip

    def following(self) -> Following:
        """The updates of all seeds as one."""
        seeds = [self.followed[seed] for seed in self.seeds]
        losses = zip(*(one.losses for one in seeds), strict=False)
        # the seed that ended first has no steps that others lack
        steps = min((one.steps for one in seeds), key=len)
        taken = columns(steps, (one.taken for one in seeds))
        return Following(dict(self.depth), tuple(map(fmean, losses)), **taken)

    def shares(self) -> tuple[Share, ...]:
        """What each pattern contributes, the largest first."""
        names = [name for name in self.found[self.seeds[0]].sizes if name not in (ALL, ANSWER)]
        intervals = ((name, positive_interval(self.values(name))) for name in names)
        found = (Share(name, i.estimate, i.low, i.high) for name, i in intervals)
        return tuple(sorted(found, key=lambda share: -share.mean))


@dataclass
class _Schedule:
    """Which job makes which others possible.

    The first seed of the first depth gives the :class:`Scale` of all others, and the first seed
    of every depth the η of its other seeds.
    """

    family: Family
    rows: Sequence[_Row]
    watch: Watch | None
    depends_on: object
    updates: int
    eta: float | None  # of the updates
    shapes: dict[str, Depth] = field(default_factory=dict)  # and the depth that has them

    def first(self) -> Job:
        """The job that all others wait for."""
        return self._find(self.rows[0], Scale(), self._begun)

    def _begun(self, first: Measured) -> Iterator[Job]:
        threads = machine.fitting_threads(first.entries)
        scale = Scale(first.unit, first.eta, threads)
        yield from self._others(self.rows[0], scale, first)
        for row in self.rows[1:]:
            yield self._find(row, scale, partial(self._others, row, scale))
        for row in self.rows if self.updates else ():
            yield from (self._followed(row, seed, threads) for seed in row.seeds)

    def _followed(self, row: _Row, seed: int, threads: int) -> Job:
        asked = (row.depth, seed, self.updates, self.eta, threads)
        return Job(
            f"{self.family.factory.name} at depth {depth_key(row.depth)}, {self.updates} updates",
            cost_of(row.depth) * self.updates,
            partial(self.family.follow, *asked),
            partial(row.followed.__setitem__, seed),
            None if self.depends_on is None else (self.depends_on, "follow", *asked),
            lasting=lambda found: found.seen.known,
            fits=lambda found: found.seen.holds(),
        )

    def _find(self, row: _Row, scale: Scale, follow: Callable[[Measured], Iterator[Job]]) -> Job:
        def keep(found: Measured) -> Iterator[Job]:
            self._require_change(row.depth, found)
            self._keep(row, row.seeds[0], found)
            return follow(found)

        return self._job(row, row.seeds[0], scale, None, keep, {ALL, *self.family.shares})

    def _others(self, row: _Row, scale: Scale, first: Measured) -> Iterator[Job]:
        scale = replace(scale, eta=first.eta)  # of this depth: nothing else is asked
        for seed in row.seeds[1:]:
            keep = partial(self._keep, row, seed)
            yield self._job(row, seed, scale, first.eta, keep, set(first.sizes))

    def _job(
        self, row: _Row, seed: int, scale: Scale, eta: float | None,
        keep: Callable[[Measured], Iterator[Job] | None], names: set[str],
    ) -> Job:  # fmt: skip
        patterns = row is self.rows[-1] or "d" in row.depth
        asked = (row.depth, seed, scale, eta, patterns)
        return Job(
            f"{self.family.factory.name} at depth {depth_key(row.depth)}",
            cost_of(row.depth),
            partial(self.family.measure, *asked),
            keep,
            None if self.depends_on is None else (self.depends_on, *asked),
            lasting=lambda found: found.seen.known,
            fits=lambda found: (
                (found.update is not None or eta is not None)
                and names <= found.sizes.keys()
                and found.seen.holds()
            ),
        )

    def _keep(self, row: _Row, seed: int, found: Measured) -> None:
        row.found[seed] = found
        if self.watch is not None and row.complete:
            self.watch(row.point())

    def _require_change(self, depth: Depth, found: Measured) -> None:
        # shared layers have one shape at every depth, and move the output by another amount
        other = self.shapes.setdefault(f"{found.shapes} {found.sizes[ALL]:.5g}", depth)
        if other != depth:
            few, many = sorted((other, depth), key=cost_of)
            what, unit = ("width", "") if "d" in depth else ("depth", " layers")
            raise InputError(
                f"{self.family.factory.name} gives the same parameters at {depth_key(few)} and at "
                f"{depth_key(many)}{unit}: does it use the {what} that it is given?"
            )


def _exponent(name: str, rows: Sequence[_Row], wanted: int) -> Exponent:
    """The exponent in depth, judged against a constant."""
    plan = Plan(Prediction("N", name, Fraction(0)), total=False)
    values = np.array([row.values(name) for row in rows], dtype=float).T
    updates = [row.update for row in rows]
    return judge_exponent(plan, [row.depth for row in rows], values, updates, wanted)


def _in_width(rows: Sequence[_Row]) -> Iterator[Exponent]:
    """The exponents in d of the whole and of every parameter, and what would mend one."""
    places = [row.depth for row in rows]
    first = rows[0].found[rows[0].seeds[0]]
    tokens = first.entries // first.width
    names = [
        name for name in first.sizes if all(name in m.sizes for r in rows for m in r.found.values())
    ]
    for variable in reversed(places[0]):
        for name in names if variable == "d" else (ALL,):
            if not varies_alone(variable, places):
                continue
            values = np.array([row.values(name) for row in rows], dtype=float).T
            plan = Prediction(variable, name, Fraction(0))
            found = judge_power(plan, places, values, tokens)
            if found.verdict is Verdict.REFUTED and variable == "d" and name != ALL:
                found = replace(found, because=f"{_mend(found)}; {found.because}")
            yield found


def _mend(e: Exponent) -> str:
    """What would make the update as large at every width."""
    power = f"width^{-e.estimate:+.2f} ({-e.high:+.2f} to {-e.low:+.2f})"
    if e.share == ANSWER:
        return f"the head's initial size, or the logits' multiplier, should scale as {power} of it"
    return f"its learning rate should scale as {power} of it"
