"""‖ΔF‖/η of a family of models of one's own, against depth."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import torch
from torch import nn

from deepnet_theory.models.factory import Factory, load_factory
from deepnet_theory.models.first_step import FirstStep, first_step
from deepnet_theory.models.stepped import Stepped
from deepnet_theory.numeric.judging.exponents import ALL, Plan, judge_exponent
from deepnet_theory.numeric.judging.statistics import positive_interval
from deepnet_theory.numeric.measuring.model_update import FIRST_ETA, ModelUpdate, find_linear_step
from deepnet_theory.numeric.stacks.depths import Depth, depth_key, parse_depths
from deepnet_theory.processes import Job, Progress, run_until_stopped, silent
from deepnet_theory.runtime import machine
from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.model_measurement import ModelMeasurement, Share
from deepnet_theory.spec.prediction import Prediction
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.spec.verification import Exponent, Point

LAYERS = stack("encoder")  # whose depths are numbers of layers, N
MOST_SEEDS = 1024
Watch = Callable[[Point], None]  # receives each point as soon as it is measured


def measure(
    make_model: Callable[..., object] | str,
    depths: str | Iterable[object],
    *,
    optimizer: object = None,
    update: str | None = None,
    inputs: object = None,
    final_state: str | None = None,
    shares: Sequence[str] = (),
    seeds: int = 8,
    seed: int = 0,
    progress: Progress | None = None,
    watch: Watch | None = None,
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

    Raises :class:`InputError` for a factory or settings that do not serve.

    Source: the model update of DeepNet, arXiv 2203.00555, §4.1, per unit of the learning rate.
    """
    began = time.perf_counter()
    wanted = parse_depths(depths, LAYERS)
    if len(wanted) < 2:
        raise InputError(f"the depths {shown(depths)} give no exponent: two or more are needed")
    if type(seeds) is not int or not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds {shown(seeds)} is not a whole number from 1 to {MOST_SEEDS}")
    require_seed(seed)
    if isinstance(make_model, str):
        factory = load_factory(make_model)
    elif callable(make_model):
        factory = Factory(getattr(make_model, "__name__", "the factory"), make_model)
    else:
        raise InputError(f"{shown(make_model)} makes no models: give a function of the depth")
    family = _Family(factory, first_step(optimizer, update), inputs, final_state, tuple(shares))
    rows = {depth_key(d): _Row(d) for d in wanted}
    total = sum(d["N"] for d in wanted) * seeds
    jobs = _jobs(family, list(rows.values()), range(seed, seed + seeds), watch)
    stopped = run_until_stopped(jobs, 1, None, total, progress or silent)
    measured = [row for row in rows.values() if len(row.sizes) == seeds]
    shared = dict.fromkeys(shares)
    exponents = tuple(_exponent(name, measured, len(wanted)) for name in (ALL, *shared))
    warnings = [row.update.finding for row in measured if row.update and row.update.finding]
    if stopped:
        warnings.append(f"{stopped}: {len(measured)} of {len(wanted)} depths were measured")
    same = seeds > 1 and len(family.drawn) == len(measured)
    if same:
        warnings.append(
            f"{factory.name} draws the same weights whatever torch's seed is (does it set a seed?):"
            " all seeds are one, and there is no interval"
        )
    return ModelMeasurement(
        model=factory.name,
        optimizer=family.step.name,
        measure={"depths": list(rows), "seeds": seeds, "seed": seed, "final_state": final_state},
        points=tuple(row.point() for row in measured),
        exponents=exponents,
        shares=measured[-1].shares() if measured else (),
        verdict=Verdict.UNDECIDED if stopped or same else exponents[0].verdict,
        device=str(family.device),
        seconds=time.perf_counter() - began,
        versions={"python": platform.python_version(), "torch": torch.__version__},
        warnings=tuple(warnings),
        stopped=stopped,
    )


class _Row:
    """What has been measured at one depth: sizes ‖ΔF‖/η a seed, of all and of each share."""

    def __init__(self, depth: Depth) -> None:
        self.depth = depth
        self.update: ModelUpdate | None = None  # of the first seed
        self.sizes: list[dict[str, float]] = []

    def values(self, name: str = ALL) -> tuple[float, ...]:
        """One value a seed."""
        return tuple(sizes[name] for sizes in self.sizes)

    def point(self) -> Point:
        """The mean over seeds and its interval."""
        assert self.update is not None
        interval = positive_interval(self.values())
        return Point(
            depth=dict(self.depth),
            mean=interval.estimate,
            low=interval.low,
            high=interval.high,
            seeds=len(self.sizes),
            values=self.values(),
            finding=self.update.finding,
        )

    def shares(self) -> tuple[Share, ...]:
        """What each pattern contributes, the largest first."""
        names = [name for name in self.sizes[0] if name != ALL]
        intervals = ((name, positive_interval(self.values(name))) for name in names)
        found = (Share(name, i.estimate, i.low, i.high) for name, i in intervals)
        return tuple(sorted(found, key=lambda share: -share.mean))


class _Family:
    """The models of a factory, made and stepped one at a time."""

    def __init__(
        self, factory: Factory, step: FirstStep, inputs: object,
        final_state: str | None, shares: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.factory, self.step, self.inputs = factory, step, inputs
        self.final_state, self.shares = final_state, shares
        self.unit = 0.0  # η: the learning rate of the first depth
        self.eta = FIRST_ETA  # with which the last depth's step was linear
        self.device = torch.device("cpu")
        self.drawn: set[tuple[int, float]] = set()  # depths, and what their models' weights are
        self._size = 0
        self._shapes: dict[int, list[tuple[str, torch.Size]]] = {}

    def measure(self, row: _Row, seed: int, deepest: bool) -> None:
        """One seed of a depth; the first of them finds how long a step is linear."""
        depth = row.depth["N"]
        with machine.threads(machine.fitting_threads(self._size)):
            stepped = self._stepped(depth, seed)
            if row.update is None:
                row.update = find_linear_step(
                    partial(stepped.update, row.depth, unit=self.unit), self.eta
                )
                self.eta = row.update.eta
            names = [*self.shares, *(stepped.patterns() if deepest else ())]
            scale = row.update.eta / self.unit
            row.sizes.append(
                {name: stepped.size_of(scale, name) / row.update.eta for name in (ALL, *names)}
            )
        self.drawn.add((depth, stepped.weights))
        self.device, self._size = stepped.before.device, stepped.before.numel()

    def _stepped(self, depth: int, seed: int) -> Stepped:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            made = self.factory.make(depth, self.inputs, seed)
        self._require_change(depth, made.module)
        generator = torch.Generator().manual_seed(seed)
        stepped = Stepped(made, self.step, self.final_state, generator)
        for pattern in self.shares:
            if not stepped.moving(pattern):
                raise InputError(
                    f"no parameter that moves is called {pattern!r}; they are called: "
                    + ", ".join(stepped.patterns())
                )
        self.unit = self.unit or stepped.rate
        return stepped

    def _require_change(self, depth: int, module: nn.Module) -> None:
        shapes = [(name, p.shape) for name, p in module.named_parameters()]
        for other, same in self._shapes.items():
            if other != depth and same == shapes:
                raise InputError(
                    f"{self.factory.name} gives the same parameters at {other} and at {depth} "
                    "layers: does it use the depth that it is given?"
                )
        self._shapes[depth] = shapes


def _jobs(
    family: _Family, rows: Sequence[_Row], seeds: Sequence[int], watch: Watch | None
) -> Iterator[Job]:
    for row in rows:
        what = f"{family.factory.name} at depth {depth_key(row.depth)}"

        def keep(_: None, row: _Row = row) -> None:
            if watch is not None and len(row.sizes) == len(seeds):
                watch(row.point())

        for seed in seeds:
            work = partial(family.measure, row, seed, row is rows[-1])
            yield Job(what, row.depth["N"], work, keep)


def _exponent(name: str, rows: Sequence[_Row], wanted: int) -> Exponent:
    """The exponent in depth, judged against a constant."""
    plan = Plan(Prediction("N", name, Fraction(0)), total=False)
    values = np.array([row.values(name) for row in rows], dtype=float).T
    updates = [row.update for row in rows if row.update is not None]
    return judge_exponent(plan, [row.depth for row in rows], values, updates, wanted)
