"""Your own training runs, at every size and rate.

``train_setup(depth, width, lr, seed)`` gives ``step()``, which trains once, and ``evaluate()``,
whose lowest number is the best. A plain factory of models is trained on text with an optimizer.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, product
from statistics import fmean
from typing import Any, Unpack

import torch

from deepnet_theory.definitions.outcome import InputError, ran_out_of_memory, shown
from deepnet_theory.definitions.training import Transfer
from deepnet_theory.laboratory.measuring import LAYERS, cost_of, default_dtype, seeds_from
from deepnet_theory.laboratory.model_steps import FirstStep, Going, first_step
from deepnet_theory.laboratory.optimum import Losses, judged, require_steps, wanted_rates
from deepnet_theory.laboratory.settings import (
    Depth,
    depth_key,
    parse_depths,
    parse_widths,
    provenance,
)
from deepnet_theory.models.factory import Factory, alone, factory_of, talking_aside, told
from deepnet_theory.processes import Job, Work, cache_of, cores, run_until_stopped, travels
from deepnet_theory.runtime import machine

OFFERED = ("depth", "width", "lr", "seed", "steps")  # by name, each where the factory takes it
LONG = 5_000  # steps of all runs; below it a process takes longer to start than to help


@dataclass(frozen=True)
class Ended:
    """What one run ends with: NaN where it diverged, and why."""

    value: float
    baseline: float | None
    why: str


UNVARIED = {"depth": 4, "width": 64}  # what a factory is given that asks for one of these alone


@dataclass(frozen=True)
class Setup:
    """Runs of a factory, ``steps`` long; ``dtype`` is torch's default one.

    A factory of models alone is trained on text by ``stepped``.
    """

    factory: Factory
    steps: int
    dtype: torch.dtype
    stepped: FirstStep | None = None

    def train(self, place: Depth, rate: float, seed: int) -> Ended:
        """One run in one thread; :class:`InputError` for a factory that keeps no contract."""
        where = f"{self.factory.name} at {_words(place)}, lr {rate:g}, seed {seed}"
        ended: tuple[float, float | None, str]
        with (
            alone(),
            machine.threads(1),
            default_dtype(self.dtype),
            torch.random.fork_rng(),
        ):
            torch.manual_seed(seed)
            try:
                ended = self._trained(place, rate, seed, where)
            except ArithmeticError as error:  # as people say that a loss is no number
                ended = math.nan, None, told(error)
            return Ended(*ended)

    def _trained(
        self, place: Depth, rate: float, seed: int, where: str
    ) -> tuple[float, float | None, str]:
        if self.stepped is not None:
            given: object = self._on_text(place, rate, seed)
        else:
            with _theirs(f"{where} failed"):
                given = self.factory.function(**self._arguments(place, rate, seed))
        step, evaluate, *rest = _contract(given, where)
        baseline = _number(rest[0], f"the baseline of {where}") if rest else None
        for index in range(self.steps):
            with _theirs(f"{where}: step() failed at step {index}", ArithmeticError):
                loss = step()
            if loss is not None and not math.isfinite(value := _number(loss, f"{where}: step()")):
                return math.nan, baseline, f"the loss was {value} at step {index}"
        with _theirs(f"{where}: evaluate() failed", ArithmeticError):
            result = evaluate()
        value = _number(result, f"{where}: evaluate()")
        if not math.isfinite(value):
            return math.nan, baseline, f"evaluate() gives {value}"
        return value, baseline, ""

    def _on_text(self, place: Depth, rate: float, seed: int) -> tuple[Any, ...]:
        """Step, evaluate and baseline of a plain model, as ``measure`` follows its updates."""
        assert self.stepped is not None
        made = self.factory.seeded(seed, place.get("N"), width=place.get("d"))
        going, taken = Going(made, self.stepped, rate, None, seed), count()

        def step() -> float:
            *_, loss = going.seen(next(taken))
            going.update(loss)
            return float(loss.detach())

        rest = () if going.baseline is None else (going.baseline,)
        return step, partial(going.validate, self.steps), *rest

    def _arguments(self, place: Depth, rate: float, seed: int) -> dict[str, Any]:
        """What the factory takes of what there is, by name."""
        offered = {"lr": rate, "seed": seed, "steps": self.steps}
        offered |= {name: place[s] for name, s in (("depth", "N"), ("width", "d")) if s in place}
        takes = self._parameters()
        if any(p.kind is p.VAR_KEYWORD for p in takes.values()):
            return offered
        asked = {n: UNVARIED[n] for n, p in takes.items() if n in UNVARIED and p.default is p.empty}
        return {name: value for name, value in (asked | offered).items() if name in takes}

    def _parameters(self) -> dict[str, inspect.Parameter]:
        try:
            return dict(inspect.signature(self.factory.function).parameters)
        except (TypeError, ValueError):
            return {}

    def require_arguments(self, places: Sequence[Depth]) -> None:
        """Raise :class:`InputError` where the factory lacks what varies, or asks for more."""
        if self.stepped is not None:
            return  # the factory of models says so itself
        name, takes = self.factory.name, self._parameters()
        there = self._arguments(places[0], 0.0, 0)
        for argument, symbol, what in (
            ("lr", None, "learning rate"), ("depth", "N", "depth"), ("width", "d", "width"),
        ):  # fmt: skip
            if (symbol is None or symbol in places[0]) and argument not in there:
                raise InputError(
                    f"{name} takes no {argument}, so that its {what} cannot be varied; "
                    "def train_setup(depth, width, lr, seed) takes each by its name, and a plain "
                    "factory of models is trained on text with an optimizer: give one"
                )
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        open_ones = [n for n, p in takes.items() if p.default is p.empty and p.kind not in kinds]
        if missing := [n for n in open_ones if n not in there]:
            raise InputError(
                f"{name} asks for {', '.join(missing)}; valid are: {', '.join(OFFERED)}"
            )


@contextmanager
def _theirs(sentence: str, but: type[Exception] = MemoryError) -> Iterator[None]:
    """Somebody's code runs within: errors ``but`` these, or of memory, end in this sentence."""
    try:
        with talking_aside():
            yield
    except (Exception, SystemExit) as error:
        if isinstance(error, but) or ran_out_of_memory(error):
            raise
        raise InputError(f"{sentence}: {told(error)}") from error


def _contract(given: object, where: str) -> tuple[Any, ...]:
    """The functions step and evaluate, and the baseline where there is one."""
    if isinstance(given, tuple) and len(given) in (2, 3) and all(map(callable, given[:2])):
        return given
    raise InputError(
        f"{where} gives {shown(given)}; it should end in: return step, evaluate; two functions, "
        "and behind them the baseline where one is known, what a model has that ignores its input"
    )


def _number(value: object, what: str) -> float:
    try:
        if not isinstance(value, str | bytes):
            return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        pass
    raise InputError(f"{what} gives {shown(value)}, which is no number")


def _words(place: Depth) -> str:
    names = {"N": "depth", "d": "width"}
    return ", ".join(f"{names[symbol]} {n}" for symbol, n in place.items())


@dataclass
class _Runs:
    """What has ended, by place, rate and seed."""

    places: Sequence[Depth]
    rates: Sequence[float]
    seeds: Sequence[int]
    ended: dict[tuple[int, float, int], Ended] = field(default_factory=dict)

    def rows(self) -> list[dict[float, Losses]]:
        """The values of each place by rate, those that all seeds have."""
        return [
            {
                rate: tuple(self.ended[index, rate, seed].value for seed in self.seeds)
                for rate in self.rates
                if all((index, rate, seed) in self.ended for seed in self.seeds)
            }
            for index in range(len(self.places))
        ]

    @property
    def baseline(self) -> float | None:
        """The mean of those that the factory gives, None where it gives none."""
        known = [e.baseline for e in self.ended.values() if e.baseline is not None]
        return fmean(known) if known else None

    def warnings(self, name: str, alike: bool) -> Iterator[str]:
        """How many runs ended early and why the first did, and whether the seeds are alike."""
        early = [(key, e.why) for key, e in self.ended.items() if e.why]
        if early:
            (index, rate, seed), why = min(early)
            yield (
                f"{len(early)} of {len(self.ended)} runs diverged; the first, at "
                f"{_words(self.places[index])}, lr {rate:g}, seed {seed}: {why}"
            )
        if alike:
            yield (
                f"{name} gives the same at all {len(self.seeds)} seeds (does it set a seed itself, "
                "or take none?): the first seed alone counts, and one gives no interval"
            )


def transfer(
    train_setup: Callable[..., object] | str,
    depths: str | Iterable[object] | None = None,
    widths: str | Iterable[object] | None = None,
    rates: str | Iterable[float] = (),
    *,
    steps: int = 100,
    seeds: int = 4,
    seed: int = 0,
    optimizer: object = None,
    update: str | None = None,
    **work: Unpack[Work],
) -> Transfer:
    """Train your own runs at every size and rate, and say whether the best rate transfers.

    ``train_setup``, a function or a text ``FILE.py:NAME``, takes ``lr``, and ``depth``, ``width``,
    ``seed`` and ``steps`` where it names them, and returns ``step, evaluate`` or ``step, evaluate,
    baseline``. It is given a depth of 4 or a width of 64 where it asks for one that does not vary.
    ``step()`` trains once and may return the loss; after ``steps`` of them ``evaluate()`` gives the
    number that is to be lowest. ``baseline`` is what a model has that ignores its input: a run that
    ends no better has failed. Torch is seeded before each run; a run that diverges, by a number not
    finite or an :class:`ArithmeticError`, counts as the worst.

    With an ``optimizer`` or an ``update``, as :func:`~deepnet_theory.laboratory.measuring.measure`
    takes them, ``train_setup`` is ``make_model(depth)``, ``(width)`` or ``(depth, width)``: a plain
    factory of models, trained at each rate on windows of text (or on the inputs that it gives), and
    judged by the loss on other windows.

    A run takes one thread, and is kept by the ``cache`` where the factory is named by a text; an
    interrupt (Ctrl-C) gives the partial result. Raises :class:`InputError` for what cannot be
    trained.
    """
    began = time.perf_counter()
    if depths is None and widths is None:
        raise InputError("give depths, such as 4,8,16, or widths, such as 64,128")
    layers = ({},) if depths is None else parse_depths(depths, LAYERS)
    across = () if widths is None else parse_widths(widths, 1)
    places = [{**one, "d": d} for one in layers for d in across] if across else [*layers]
    grid = wanted_rates(rates)
    require_steps(steps)
    drawn = seeds_from(seed, seeds)
    stepped = None if optimizer is update is None else first_step(optimizer, update)
    setup = Setup(factory_of(train_setup), steps, torch.get_default_dtype(), stepped)
    setup.require_arguments(places)
    cache = work["cache"] = cache_of(work.get("cache"))
    runs = _Runs(places, grid, drawn)
    wanted = list(product(range(len(places)), grid, runs.seeds))
    work["processes"] = work.get("processes", 1) or (
        cores() if len(wanted) * steps >= LONG and not torch.cuda.is_available() else 1
    )
    if (work["processes"] != 1 or work.get("executor") is not None) and not travels(setup):
        work["processes"], work["executor"] = 1, None
    name = setup.factory.name
    known = None
    if cache is not None and (stepped is None or stepped.code is not None):
        known = setup.factory.depends_on("transfer", setup.dtype, steps, stepped)
    jobs = [
        Job(
            f"{name} at {_words(places[index])}, lr {rate:g}",
            cost_of(places[index]),
            partial(setup.train, places[index], rate, one),
            partial(runs.ended.__setitem__, (index, rate, one)),
            None if known is None else (known, places[index], rate, one),
        )
        for index, rate, one in wanted
    ]
    stopped = run_until_stopped(jobs, sum(job.cost for job in jobs), **work)
    baseline = runs.baseline
    rows = runs.rows()
    finite = [v for row in rows for v in row.values() if all(map(math.isfinite, v))]
    if alike := bool(finite) and seeds > 1 and all(len({*v}) == 1 for v in finite):
        rows = [{rate: v[:1] for rate, v in row.items()} for row in rows]
    closure = judged(places, grid, rows, math.inf if baseline is None else baseline, None)
    return Transfer(
        select={"model": name, **({} if stepped is None else {"optimizer": stepped.name})},
        measure={
            "steps": steps, "seeds": seeds, "seed": seed, "rates": list(grid),
            "depths": [depth_key(place) for place in places],
            **({"width": list(across)} if across else {}),
        },
        closures=(closure,),
        baseline=baseline,
        provenance=provenance(
            began, torch.device("cuda" if torch.cuda.is_available() else "cpu"), stopped,
            runs.warnings(name, alike),
        ),
    )  # fmt: skip
