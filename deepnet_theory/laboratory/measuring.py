"""‖ΔF‖/η of a family of models of your own, against depth and width."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Annotated, Any, TypeVar, Unpack

import torch

from deepnet_theory.definitions.measurement import MODEL, Estimate, Exponent, Result, Run, sized
from deepnet_theory.definitions.outcome import InputError, Verdict, shown, unknown
from deepnet_theory.definitions.record import LARGEST, MOST, Option, require_seed
from deepnet_theory.definitions.selection import Stack
from deepnet_theory.definitions.selection import stack as stack_named
from deepnet_theory.laboratory.judging import judge_exponent, judge_power, varies_alone, verdict_on
from deepnet_theory.laboratory.model_steps import (
    ANSWER,
    LINEAR,
    FirstStep,
    Stepped,
    first_step,
    follow,
    on_text,
)
from deepnet_theory.laboratory.model_update import ALL
from deepnet_theory.laboratory.noise import FEWEST, SEQUENCES, noise_of
from deepnet_theory.laboratory.runs import Ended, run_of, warning
from deepnet_theory.laboratory.settings import (
    Depth,
    depth_key,
    parse_depths,
    parse_widths,
    provenance,
)
from deepnet_theory.laboratory.statistics import CONFIDENCE, Array, estimated, table
from deepnet_theory.laboratory.verify import Look, because, decided, looks_at
from deepnet_theory.models.factory import Factory, alone, factory_of
from deepnet_theory.processes.jobs import Job, Work, run_jobs
from deepnet_theory.processes.keep import cache_of, digest
from deepnet_theory.runtime import machine

LAYERS = stack_named("encoder")  # whose depths are numbers of layers, N
MOST_SEEDS = 1024
SEEDS = 8  # at most, where their number is not asked for


def measure(
    make_model: Callable[..., object] | str,
    depths: Annotated[
        str | Iterable[object] | None, Option("LIST", "Layers: 6,12,24 or 8:128")
    ] = None,
    *,
    widths: Annotated[
        str | Iterable[object] | None, Option("LIST", "Widths: 64,128,256 or 64:1024")
    ] = None,
    optimizer: Annotated[
        object, Option("NAME", "See `list optimizers`; or FILE.py:FUNCTION, which gives one")
    ] = None,
    update: Annotated[
        str | None, Option("EXPR", "Instead: a first update, in eta, g and theta")
    ] = None,
    inputs: object = None,
    updates: Annotated[
        int, Option("K", "Also take K steps, and follow what all tokens come to share: R, cosine")
    ] = 0,
    eta: Annotated[float | None, Option("ETA", "Their learning rate; the optimizer's own")] = None,
    seeds: Annotated[
        int | None, Option("N", "Repetitions; 3, and up to 8 until it is decided")
    ] = None,
    seed: Annotated[int, Option("S", "Seed of all random draws")] = 0,
    noise: Annotated[bool, Option("", "B_noise of the gradient by group of parameters")] = False,
    sequences: Annotated[int, Option("N", "Sequences that B_noise is measured on")] = SEQUENCES,
    **work: Unpack[Work],
) -> Result:
    r"""Measure ‖ΔF‖/η per token of your own models at several depths: is it constant?

    .. math:: \frac{\|\Delta F\|}{\eta} = \lim_{s\to0} \frac1{s\,\eta\,T} \sum_{t=1}^{T}
              \|F_t(\theta + s\Delta\theta) - F_t(\theta)\|

    Δθ is the first step of a fresh ``optimizer`` at its own learning rate η: a name, a class of
    ``torch.optim``, or a function that receives a model and gives its optimizer. Or it is an
    ``update`` in eta, g and theta. A learning rate that changes with depth is counted in units of
    the first depth's. F (T tokens, width) is what enters the model's head.

    ``make_model(depth)``, or a text ``FILE.py:FACTORY``, gives a module, or a module and its
    inputs. Across ``widths`` it is ``make_model(depth, width)``, or ``make_model(width)`` without
    depths. Every parameter is then stepped alone: ‖ΔF‖ is compared with ‖F‖, parameters of the head
    by the loss, and an exponent in d says how far each one is off. Scale initial sizes and
    multipliers first, then learning rates by the inverse power.

    Without ``seeds`` it begins with 3, and takes up to 8 until every exponent is decided
    (:func:`~deepnet_theory.laboratory.verify.looks_at`).

    With ``updates`` each model also takes that many steps, at ``eta`` or the optimizer's own rate:
    on ``inputs(step)`` where the inputs are a function, on windows of text where they are our own
    token ids, else on the one batch. The result has the losses, R (what the branches add to all
    tokens alike) and the cosine between tokens at F. A sentence warns where R drowns each token's
    own part.

    With ``noise`` the result has B_noise of the first seed's largest model, by its gradients on
    that many ``sequences``. Without depths and widths it has nothing else, and the verdict says
    whether B_noise of the whole model is known.

    ``work`` is that of :func:`~deepnet_theory.cli.experiments.verify`. ``cache`` keeps a finished
    seed while the Python files in the folder of the named file stay as they are. A function in
    memory is not kept, and runs in this process if it cannot be pickled. Raises
    :class:`InputError` for a factory or settings that do not serve.

    Source: the model update of DeepNet, arXiv 2203.00555, §4.1, per unit of the learning rate.
    """
    began = time.perf_counter()
    if noise and depths is widths is None:
        given = {"optimizer": optimizer, "update": update, "eta": eta, "updates": updates or None}
        for name in (name for name, value in given.items() if value is not None):
            raise InputError(f"{name} was given with noise alone, which steps no model: add depths")
        return _noise(factory_of(make_model), inputs, {}, sequences, seed)
    places = places_of(depths, widths)
    if widths is None and len(places) < 2:
        raise InputError(f"the depths {shown(depths)} give no exponent: two or more are needed")
    drawn = seeds_from(seed, SEEDS if seeds is None else seeds)
    looks = [Look(len(drawn), places, CONFIDENCE, len(drawn))]
    looks = looks_at(places, SEEDS) if seeds is None else looks
    require_known(work)
    if type(updates) is not int or not 0 <= updates <= MOST:
        raise InputError(f"updates {shown(updates)} is not a whole number from 0 to {MOST}")
    if eta is not None and not (updates and isinstance(eta, int | float) and 0 < eta <= LARGEST):
        needs = "is not a number above 0" if updates else "is the rate of updates: give both"
        raise InputError(f"eta {shown(eta)} {needs}")
    factory, step = factory_of(make_model), first_step(optimizer, update)
    family = Family(factory, step, inputs, torch.get_default_dtype(), updates, eta)
    work["processes"] = work.get("processes") or 1
    cache = work["cache"] = cache_of(work.get("cache"))
    depends_on = None if cache is None else family.depends_on()
    runs, same, seen = _Runs(family, places, drawn), False, looks[0]
    for look in looks:
        runs.seeds = drawn[: look.seeds]
        jobs = [*runs.jobs(depends_on)]
        stopped = run_jobs(jobs, sum(job.cost for job in jobs), **work)
        if stopped and look is not looks[0]:
            runs.seeds = drawn[: seen.seeds]  # what the look before has seen is whole
        else:
            seen = look
        measured = [place for place in places if runs.row(place)]
        same = len(runs.seeds) > 1 and any(
            len({m.weights for m in runs.row(place)}) == 1 for place in measured
        )
        runs.seeds = runs.seeds[:1] if same else runs.seeds  # repeating one seed gives no interval
        findings = [one for place in measured if (one := runs.finding(place))]
        exponents = (*runs.exponents(measured, widths is not None, findings, seen.confidence),)
        if stopped or same or decided(exponents, seen, looks):
            break
    warnings = [*findings, *runs.drowning(measured)]
    if stopped:
        warnings.append(f"{stopped}: {len(measured)} of {len(places)} depths were measured")
    if same:
        warnings.append(alike(f"{factory.name} gives the same model", seen.seeds))
    # the whole's in depth; in width the worst of all parameters
    verdict = exponents[0].verdict if widths is None else verdict_on(exponents)
    device = next((one.device for one in runs.measured.values()), "cpu")
    return Result(
        MODEL,
        of={"model": factory.name, "optimizer": step.name},
        settings={
            "depths": [*map(depth_key, places)], "seeds": seen.seeds, "seed": seed,
            **({"updates": updates, "eta": eta} if updates else {}),
        },
        points=tuple(runs.point(place, seen.confidence) for place in measured),
        exponents=exponents,
        shares=runs.alone(measured[-1]) if measured else (),
        verdict=Verdict.UNDECIDED if stopped else verdict,
        provenance=provenance(began, torch.device(device), stopped, warnings),
        runs=tuple(map(runs.run, measured if updates else ())),
        because="" if same else because(exponents, seen, looks),
        noise=_noise(factory, inputs, places[-1], sequences, seed).noise if noise else (),
    )  # fmt: skip


def alike(said: str, seeds: int) -> str:
    """A sentence on seeds that are all the same."""
    return (
        f"{said} at all {seeds} seeds (does it set a seed itself, or take none?): the first seed "
        "alone counts, and one gives no interval"
    )


def _noise(factory: Factory, inputs: object, place: Depth, sequences: int, seed: int) -> Result:
    """B_noise of one model alone; SUPPORTED where that of all its parameters is known."""
    began = time.perf_counter()
    require_seed(seed)
    if type(sequences) is not int or not FEWEST <= sequences <= MOST:
        raise InputError(f"sequences {shown(sequences)} is not a whole number from {FEWEST} on")
    with alone():
        made = on_text(factory.seeded(seed, place.get("N"), inputs, place.get("d")), seed)
        found = noise_of(made, sequences, seed)
    taken = sequences if made.batches else min(sequences, made.sequences)
    known = bool(found) and math.isfinite(found[0].high)
    return Result(
        MODEL,
        of={"model": factory.name},
        settings={"sequences": taken, "seed": seed},
        noise=found,
        verdict=Verdict.SUPPORTED if known else Verdict.UNDECIDED,
        provenance=provenance(began, next(made.module.parameters()).device, "", []),
    )


def places_of(
    depths: str | Iterable[object] | None,
    widths: str | Iterable[object] | None,
    fewest_widths: int = 3,
    stack: Stack = LAYERS,
) -> tuple[Depth, ...]:
    """The depths, the widths, or every pair of them."""
    if depths is None and widths is None:
        raise InputError("give depths, such as 6,12,24, or widths, such as 64,128,256")
    layers = ({},) if depths is None else parse_depths(depths, stack)
    if widths is None:
        return layers
    return tuple(
        {**one, "d": width} for one in layers for width in parse_widths(widths, fewest_widths)
    )


def cost_of(place: Depth) -> float:
    """The work of a model of these layers and this width, in units of one of each."""
    return float(place.get("N", 1) * place.get("d", 1) ** 2)


def require_known(work: Work) -> None:
    """Raise :class:`InputError` for a keyword that is none of :class:`Work`."""
    if others := work.keys() - Work.__annotations__:
        raise unknown("keyword", min(others), Work.__annotations__)


def seeds_from(seed: int, count: int) -> range:
    """As many seeds from one on; raises :class:`InputError`."""
    if type(count) is not int or not 1 <= count <= MOST_SEEDS:
        raise InputError(f"seeds {shown(count)} is not a whole number from 1 to {MOST_SEEDS}")
    require_seed(seed)
    return range(seed, seed + count)


R = TypeVar("R")


def of_all(seeds: Sequence[int], found: Mapping[tuple[Any, int], R], key: object) -> list[R]:
    """What was found at a key, seed by seed; nothing where one is missing."""
    every = [(key, seed) for seed in seeds]
    return [found[one] for one in every] if all(one in found for one in every) else []


# ---- one model, made and stepped by itself: jobs that depend on nothing else ----


@dataclass(frozen=True)
class Stretch:
    """One seed at one place: ``sizes`` are ‖ΔF‖ by what was stepped, for the whole step.

    ``bend`` is the part of ΔF that is not linear, NaN where F is not finite, ``rate`` the
    optimizer's learning rate. ``shapes`` is a digest of the parameters' names and shapes,
    ``weights`` tells weights drawn anew, ``tokens`` counts F's. ``ended`` are several updates.
    """

    sizes: dict[str, float]
    bend: float
    rate: float
    shapes: str
    weights: float
    tokens: int
    device: str
    ended: Ended | None


@dataclass(frozen=True)
class Family:
    """The models of a factory, and how they are trained; ``dtype`` is torch's default one."""

    factory: Factory
    step: FirstStep
    inputs: object
    dtype: torch.dtype
    updates: int
    eta: float | None

    def measure(self, place: Depth, seed: int, patterns: bool) -> Stretch:
        """Step one model; with ``patterns`` each of :meth:`Stepped.patterns` alone, too."""
        with theirs(self.dtype):
            generator = torch.Generator().manual_seed(seed)
            made = self.factory.seeded(seed, place.get("N"), self.inputs, place.get("d"))
            stepped = Stepped(made, self.step, generator)
            entries = stepped.before.numel()
            with machine.threads(machine.fitting_threads(entries)):
                share, bend = stepped.linear_rate()
                names = stepped.patterns() if patterns else []
                if "d" in place:
                    sizes = stepped.moves(names, share)
                else:
                    sizes = {name: stepped.size_of(share, name) for name in (ALL, *names)}
            weights = stepped.weights  # before it is trained
            ended = self.updates and follow(made, self.step, self.updates, self.eta, seed)
            return Stretch(
                sizes={n: size if n == ANSWER else size / share for n, size in sizes.items()},
                bend=bend,
                rate=stepped.rate,
                shapes=digest([(n, tuple(p.shape)) for n, p in stepped.model.named_parameters()]),
                weights=weights,
                tokens=entries // stepped.before.shape[-1],
                device=str(stepped.before.device),
                ended=ended or None,
            )

    def depends_on(self) -> object:
        """As :meth:`Factory.depends_on`."""
        beside = (self.step, type(self.inputs).__name__, self.inputs, self.updates, self.eta)
        return self.factory.depends_on("measure", self.dtype, *beside)


@contextmanager
def theirs(dtype: torch.dtype) -> Iterator[None]:
    """Somebody's code runs within, alone and in one thread; unnamed tensors are of this type."""
    before = torch.get_default_dtype()
    with alone(), machine.threads(1):
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


# ---- all places and seeds ----


@dataclass
class _Runs:
    """What was measured of a family, by place and seed."""

    family: Family
    places: Sequence[Depth]
    seeds: Sequence[int]
    measured: dict[tuple[str, int], Stretch] = field(default_factory=dict)

    def jobs(self, depends_on: object) -> Iterator[Job]:
        """Every seed of every place that is not measured yet."""
        missing = (
            (place, seed)
            for place, seed in product(self.places, self.seeds)
            if (depth_key(place), seed) not in self.measured
        )
        for place, seed in missing:
            patterns = place == self.places[-1] or "d" in place
            yield Job(
                f"{self.family.factory.name} at depth {depth_key(place)}",
                cost_of(place) * (1 + self.family.updates),
                partial(self.family.measure, place, seed, patterns),
                partial(self._keep, place, seed),
                None if depends_on is None else (depends_on, place, seed, patterns),
            )

    def _keep(self, place: Depth, seed: int, found: Stretch) -> None:
        self.measured[depth_key(place), seed] = found
        self._require_change()

    def _require_change(self) -> None:
        """Raise :class:`InputError` where the first seed is one model at two places."""
        # shared layers have one shape at every depth, and change the output by another amount
        seen = dict[tuple[str, str], Depth]()
        for place in self.places:
            found = self.measured.get((depth_key(place), self.seeds[0]))
            if found is None:
                continue
            other = seen.setdefault((found.shapes, f"{found.sizes[ALL]:.5g}"), place)
            if other != place:
                what, unit = ("width", "") if "d" in place else ("depth", " layers")
                raise InputError(
                    f"{self.family.factory.name} gives the same parameters at {depth_key(other)} "
                    f"and at {depth_key(place)}{unit}: does it use the {what} that it is given?"
                )

    def row(self, place: Depth) -> list[Stretch]:
        """What was measured at a place, seed by seed; nothing before all seeds are there."""
        return of_all(self.seeds, self.measured, depth_key(place))

    def sizes(self, name: str, place: Depth) -> tuple[float, ...]:
        """‖ΔF‖/η of every seed, η in units of the first place's learning rate."""
        first = self.measured[depth_key(self.places[0]), self.seeds[0]].rate
        unit = 1.0 if name == ANSWER else first
        return tuple(m.sizes[name] / unit for m in self.row(place))

    def finding(self, place: Depth) -> str:
        """A sentence where F is not finite, or its change not linear."""
        bends = [m.bend for m in self.row(place)]
        if not all(map(math.isfinite, bends)):
            return f"at depth {depth_key(place)} F or its change is not finite"
        if max(bends) > LINEAR:
            return (
                f"at depth {depth_key(place)} the second-order part of the step is "
                f"{max(bends):.1%}: try float64"
            )
        return ""

    def point(self, place: Depth, confidence: float) -> Estimate:
        """The mean over seeds and its interval."""
        values, finding = self.sizes(ALL, place), self.finding(place)
        return estimated(dict(place), values, finding=finding, confidence=confidence)

    def run(self, place: Depth) -> Run:
        """The updates of all seeds as one."""
        seeds = [m.ended for m in self.row(place) if m.ended]
        return replace(run_of(self.family.step.name, dict(place), seeds), held_out_by_seed=())

    def drowning(self, places: Iterable[Depth]) -> Iterator[str]:
        """One sentence for all places where what is a token's own drowns."""
        sentences = {
            sized(place): sentence
            for place in places
            if (sentence := warning(t for m in self.row(place) if m.ended for t in m.ended.taken))
        }
        if sentences:
            yield f"at {'; '.join(sentences)}: {next(iter(sentences.values()))}"

    def alone(self, place: Depth) -> tuple[Estimate, ...]:
        """What each pattern contributes, the largest first."""
        shares = [
            estimated({"name": name}, self.sizes(name, place))
            for name in self._everywhere([place])
            if name not in (ALL, ANSWER)
        ]
        return tuple(sorted(shares, key=lambda share: -share.mean))

    def _everywhere(self, places: Iterable[Depth]) -> list[str]:
        """The names of what was seen to move F at all of these places and seeds."""
        first, *others = (m for place in places for m in self.row(place))
        return [name for name in first.sizes if all(name in m.sizes for m in others)]

    def exponents(
        self, places: Sequence[Depth], across_width: bool, findings: Sequence[str],
        confidence: float,
    ) -> Iterator[Exponent]:  # fmt: skip
        """In depth that of the whole, in width those of every parameter too; against a constant."""

        def values(name: str) -> Array:
            return table(self.sizes(name, place) for place in places)

        if not across_width:
            constant = Exponent("N", ALL, predicted=0.0)
            wanted = len(self.places)
            e = judge_exponent(constant, places, values(ALL), wanted, confidence=confidence)
            if e.verdict is Verdict.SUPPORTED and findings:
                e = replace(e, verdict=Verdict.UNDECIDED, because=f"{e.because}; but {findings[0]}")
            yield e
        elif len(places) == len(self.places):
            tokens, names = self.row(places[0])[0].tokens, self._everywhere(places)
            for variable in filter(partial(varies_alone, places=places), reversed(places[0])):
                for name in names if variable == "d" else (ALL,):
                    constant = Exponent(variable, name, predicted=0.0)
                    yield judge_power(constant, places, values(name), tokens, confidence)
