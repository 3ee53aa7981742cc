"""What a verification still has to measure, as jobs, and the record of what it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.depths import Depth, by_depth, depth_key
from deepnet_theory.numeric.model_update import (
    ModelUpdate,
    average_draws,
    counts,
    further_draws,
    measure_draw,
    measure_model_update,
    measure_updates,
)
from deepnet_theory.numeric.one_sublayer import (
    BLOCK,
    ERROR,
    IDENTITY,
    PREDICTED,
    Key,
    PredictedUpdate,
    Shares,
    compare_shares,
    predict_samples,
)
from deepnet_theory.numeric.premises import Probe, quantity
from deepnet_theory.numeric.reference import RealStep, compare_with_real_step
from deepnet_theory.processes import Job, per_seed
from deepnet_theory.runtime import Description
from deepnet_theory.runtime.machine import in_threads

T = TypeVar("T")
Samples = dict[str, list[float]]  # by name, one value a seed


@dataclass
class Record:
    """Model updates by depth, samples by quantity and depth, and the deepest one's ``kinds``."""

    updates: dict[str, ModelUpdate] = field(default_factory=dict)
    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    references: dict[str, RealStep] = field(default_factory=dict)
    kinds: list[tuple[Shares, dict[Key, PredictedUpdate]]] = field(default_factory=list)

    def keep(self, key: str, found: Samples) -> None:
        for name, values in found.items():
            self.samples.setdefault(name, {})[key] = values

    def checks(self) -> dict[str, Any]:
        """Plain data for a verification's ``checks``, in order whatever came first."""
        return {
            "steps": [u.to_dict() for u in by_depth(self.updates).values()],
            "reference": list(by_depth(self.references).values()),
            "samples": {name: by_depth(self.samples[name]) for name in sorted(self.samples)},
        }


def measuring(
    case: Case,
    what: str,
    cost: float,
    work: Callable[[], T],
    keep: Callable[[T], Iterable[Job] | None],
    threads: int,
    names: Iterable[object] = (),
) -> Job:
    """``work`` on a case as a job of ``threads`` threads, whose result has these ``names``."""
    alone = partial(in_threads, threads, work)
    return Job(what, cost, alone, keep, depends_on=alone, fits=partial(_fits, case, set(names)))


def predicting(case: Case, keep: Callable[[Samples], Iterable[Job] | None], threads: int) -> Job:
    """What single sublayers say of a case, as a job: the same for a prediction by itself."""
    names = IDENTITY, BLOCK, f"{PREDICTED} all", f"{ERROR} all"
    what, work = f"one sublayer at depth {depth_key(case.depth)}", partial(predict_samples, case)
    return measuring(case, what, 1, work, keep, threads, names)


def _fits(case: Case, names: set[object], found: Any) -> bool:
    depth = found.get("depth") if isinstance(found, dict) else getattr(found, "depth", None)
    named = not names or names <= found.keys()
    return named and depth in (None, case.depth) and per_seed(found, case.settings.seeds)


@dataclass
class Schedule:
    """What ``record`` is to hold of ``depths``, as jobs of ``threads`` threads.

    The first draw of a depth finds the size of its step by itself, so that what is measured there
    depends on the settings alone; all else follows it. Wanted are the measurements ``names``, the
    ``shares`` of ΔF, where ``predicted`` what single sublayers say, and ``by_kind`` the deepest
    depth's shares of every kind of parameter. ``complete`` receives each depth's model update.
    """

    case_at: Callable[[Depth], Case]
    record: Record
    names: Sequence[str]
    shares: Sequence[str]
    complete: Callable[[ModelUpdate], None]
    threads: int
    predicted: bool
    by_kind: bool

    def cost(self, depths: Sequence[Depth]) -> float:
        """The layers worked on, by stages; a prediction costs one at every depth."""
        layers = [sum(depth.values()) for depth in depths]
        several = self.case_at(depths[0]).settings.updates > 1
        stages = 2 + len(self.shares) + bool(self.names) + several
        by_kind = self.by_kind and self.predicted
        once = layers[0] + layers[-1] * (1 + by_kind) + len(layers) * self.predicted
        return float(sum(layers) * stages + once)

    def jobs(self, depths: Sequence[Depth]) -> Iterator[Job]:
        """The first job of each depth; the real optimizer is stepped at the first and the last."""
        for depth in depths:
            first = self._first(depth, depth in (depths[0], depths[-1]), depth == depths[-1])
            if not self.predicted:
                yield first
                continue

            def predicted(found: Samples, depth: Depth = depth, first: Job = first) -> list[Job]:
                self.record.keep(depth_key(depth), found)
                return [first]

            yield predicting(self.case_at(depth), predicted, self.threads)

    def _first(self, depth: Depth, at_end: bool, deepest: bool) -> Job:
        case, key, layers = self.case_at(depth), depth_key(depth), float(sum(depth.values()))
        record, settings = self.record, case.settings

        def job(
            what: str,
            work: Callable[[], T],
            keep: Callable[[T], Iterable[Job] | None],
            names: Iterable[object] = (),
            cost: float = layers,
        ) -> Job:
            return measuring(case, f"{what} at depth {key}", cost, work, keep, self.threads, names)

        def follow(first: ModelUpdate) -> Iterator[Job]:
            sampled = partial(record.keep, key)
            probe = Probe(case, first)
            draws = further_draws(first, settings.draws)
            drawn = {0: first}

            def draw_came(draw: int, one: ModelUpdate) -> None:
                drawn[draw] = one
                if len(drawn) > len(draws):  # averaged in their order, whichever came first
                    update = average_draws([drawn[i] for i in sorted(drawn)])
                    record.updates[key] = update
                    self.complete(update)

            if not draws:
                draw_came(0, first)
            for draw in draws:
                work = partial(measure_draw, case, first.eta, draw)
                keep = partial(draw_came, draw)
                yield job("model update", work, keep, cost=layers / len(draws))
            for share in self.shares:
                alone = partial(_share, probe, share)
                yield job(f"the share {share}", alone, sampled, [share_key(share)])
            if settings.updates > 1:
                names = [share_key(updates_share(n)) for n in counts(settings.updates)]
                yield job(f"{settings.updates} updates", partial(_updates, case), sampled, names)
            if self.names:
                measured = partial(_quantities, probe, self.names)
                yield job("assumptions", measured, sampled, self.names)
            if deepest and self.by_kind and self.predicted and not first.finding:
                compared = partial(compare_shares, case)
                yield job("every kind of parameter", compared, record.kinds.append)
            if at_end:
                real = partial(compare_with_real_step, case, first.eta)
                yield job("the real optimizer", real, partial(record.references.__setitem__, key))

        return job("model update", partial(measure_model_update, case), follow)


def share_key(share: str) -> str:
    return f"share {share}"


def updates_share(count: int) -> str:
    return f"{count} updates"


def _share(probe: Probe, share: str) -> Samples:
    """What the parameters of a part, of a matrix by its name, or of a role move alone."""

    def chosen(d: Description) -> bool:
        return share in (d.part, d.name, d.role.value)

    return {share_key(share): probe.share(chosen, probe.case.settings.draws).tolist()}


def _updates(case: Case) -> Samples:
    return {share_key(updates_share(n)): values for n, values in measure_updates(case).items()}


def _quantities(probe: Probe, names: Sequence[str]) -> Samples:
    return {name: quantity(name)(probe).tolist() for name in names}
