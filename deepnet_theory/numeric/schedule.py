"""What a verification still has to measure, as jobs, and the record of what it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
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
from deepnet_theory.spec.rule import Rule


def rule_to_dict(rule: Rule) -> dict[str, Any]:
    """A rule as plain data."""
    return {
        "name": rule.name,
        "entries": [asdict(entry) for entry in rule.entries],
        "eta": rule.eta,
        "meaning": rule.meaning,
    }


@dataclass
class Record:
    """Model updates by depth, and samples by quantity and depth, one value a seed.

    ``kinds`` has what each kind of parameter moves at the deepest depth, measured and predicted.
    """

    updates: dict[str, ModelUpdate] = field(default_factory=dict)
    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    references: dict[str, RealStep] = field(default_factory=dict)
    kinds: list[tuple[Shares, dict[Key, PredictedUpdate]]] = field(default_factory=list)

    def checks(self) -> dict[str, Any]:
        """The record as plain data, within a verification's ``checks``.

        By depth and by name, whatever came first from several processes.
        """
        return {
            "steps": [u.to_dict() for u in by_depth(self.updates).values()],
            "reference": list(by_depth(self.references).values()),
            "samples": {name: by_depth(self.samples[name]) for name in sorted(self.samples)},
        }


T = TypeVar("T")


class Schedule:
    """What ``record`` is to hold of ``depths``, as jobs.

    The first draw of a depth finds the size of its step, by itself: what is measured at a depth
    depends on the settings alone, not on the other depths. All else at the depth follows it.
    ``names`` are the measurements and ``shares`` the shares of ΔF that are wanted; ``complete``
    receives each depth's model update when its last draw has come. Where ``predicted``, each
    depth's size is predicted from single sublayers too, and with ``by_kind`` the deepest one's
    shares of every kind of parameter are measured and predicted. Jobs compute with ``threads``
    threads.
    """

    def __init__(
        self,
        case_at: Callable[[Depth], Case],
        record: Record,
        names: Sequence[str],
        shares: Sequence[str],
        complete: Callable[[ModelUpdate], None],
        threads: int = 1,
        predicted: bool = True,
        by_kind: bool = False,
    ) -> None:
        self.case_at, self.record = case_at, record
        self.names, self.shares, self.complete = tuple(dict.fromkeys(names)), shares, complete
        self.threads, self.predicted, self.by_kind = threads, predicted, by_kind and predicted

    def cost(self, depths: Sequence[Depth]) -> float:
        """The layers worked on, each once for the first draw, the others, a share, the premises.

        A prediction costs the same at every depth, and counts as one.
        """
        layers = [sum(depth.values()) for depth in depths]
        several = self.case_at(depths[0]).settings.updates > 1
        stages = 2 + len(self.shares) + bool(self.names) + several
        once = layers[0] + layers[-1] * (1 + self.by_kind) + len(layers) * self.predicted
        return float(sum(layers) * stages + once)

    def jobs(self, depths: Sequence[Depth]) -> Iterator[Job]:
        """The first job of each depth; the real optimizer is stepped at the first and the last."""
        ends = (depths[0], depths[-1])
        for depth in depths:
            last = self.by_kind and depth == depths[-1]
            key, follow = depth_key(depth), partial(self._first, depth, depth in ends, last)
            if self.predicted:
                case = self.case_at(depth)
                work = partial(predict_samples, case)
                yield self._job(
                    case, f"one sublayer at depth {key}", 1, work,
                    partial(self._predicted, key, follow),
                    (IDENTITY, BLOCK, f"{PREDICTED} all", f"{ERROR} all"),
                )  # fmt: skip
            else:
                yield from follow()

    def _first(self, depth: Depth, at_end: bool, by_kind: bool) -> Iterator[Job]:
        """The first draw of a depth, which what is predicted of it goes before."""
        case = self.case_at(depth)
        yield self._job(
            case,
            f"model update at depth {depth_key(depth)}",
            sum(depth.values()),
            partial(measure_model_update, case),
            partial(self._follow, depth, at_end, by_kind),
        )

    def _follow(
        self, depth: Depth, at_end: bool, by_kind: bool, first: ModelUpdate
    ) -> Iterator[Job]:
        """The jobs of a depth whose first draw is there."""
        key, layers, case = depth_key(depth), sum(depth.values()), self.case_at(depth)
        samples = self.record.samples
        draws = further_draws(first, case.settings.draws)
        drawn = {0: first}
        if not draws:
            self._complete(first)
        for draw in draws:
            yield self._job(
                case,
                f"model update at depth {key}",
                layers / len(draws),
                partial(measure_draw, case, first.eta, draw),
                partial(self._draw, drawn, draw, len(draws) + 1),
            )
        for share in self.shares:
            yield self._job(
                case,
                f"the share {share} at depth {key}",
                layers,
                partial(_share, Probe(case, first), share),
                partial(samples.setdefault(share_key(share), {}).__setitem__, key),
            )
        if case.settings.updates > 1:
            yield self._job(
                case,
                f"{case.settings.updates} updates at depth {key}",
                layers,
                partial(measure_updates, case),
                partial(self._moved, key),
                counts(case.settings.updates),
            )
        if self.names:
            yield self._job(
                case,
                f"assumptions at depth {key}",
                layers,
                partial(_samples, Probe(case, first), self.names),
                partial(self._sampled, key),
                self.names,
            )
        if by_kind and not first.finding:
            yield self._job(
                case,
                f"every kind of parameter at depth {key}",
                layers,
                partial(compare_shares, case),
                self.record.kinds.append,
            )
        if at_end:
            yield self._job(
                case,
                f"the real optimizer at depth {key}",
                layers,
                partial(compare_with_real_step, case, first.eta),
                partial(self.record.references.__setitem__, key),
            )

    def _job(
        self, case: Case, what: str, cost: float, work: Callable[[], T],
        keep: Callable[[T], Iterable[Job] | None], names: Iterable[object] = (),
    ) -> Job:  # fmt: skip
        alone = partial(in_threads, self.threads, work)
        fits = partial(_fits, case, set(names))
        return Job(what, cost, alone, keep, depends_on=alone, fits=fits)

    def _draw(self, drawn: dict[int, ModelUpdate], draw: int, count: int, one: ModelUpdate) -> None:
        drawn[draw] = one
        if len(drawn) == count:  # averaged in the order of the draws, whichever came first
            self._complete(average_draws([drawn[i] for i in sorted(drawn)]))

    def _complete(self, update: ModelUpdate) -> None:
        self.record.updates[depth_key(update.depth)] = update
        self.complete(update)

    def _moved(self, key: str, found: dict[int, list[float]]) -> None:
        for count, values in found.items():
            self.record.samples.setdefault(updates_key(count), {})[key] = values

    def _predicted(
        self, key: str, follow: Callable[[], Iterator[Job]], found: dict[str, list[float]]
    ) -> Iterator[Job]:
        self._sampled(key, found)
        return follow()

    def _sampled(self, key: str, found: dict[str, list[float]]) -> None:
        for name, values in found.items():
            self.record.samples.setdefault(name, {})[key] = values


def _fits(case: Case, names: set[object], found: Any) -> bool:
    """Whether a kept result is of this depth, has these names, and one number a seed."""
    depth = found.get("depth") if isinstance(found, dict) else getattr(found, "depth", None)
    named = not names or names <= found.keys()
    return named and depth in (None, case.depth) and per_seed(found, case.settings.seeds)


def share_key(share: str) -> str:
    """The name of a share's samples in a record."""
    return f"share {share}"


def updates_key(count: int) -> str:
    """The name of the samples of several updates in a record."""
    return share_key(updates_share(count))


def updates_share(count: int) -> str:
    """What the exponent of several updates is called."""
    return f"{count} updates"


def share_of(share: str) -> Callable[[Description], bool]:
    """The parameters of a share: a part's, a matrix's by its name, or a role's."""
    return lambda d: share in (d.part, d.name, d.role.value)


def _share(probe: Probe, share: str) -> list[float]:
    values: list[float] = probe.share(share_of(share), probe.case.settings.draws).tolist()
    return values


def _samples(probe: Probe, names: Sequence[str]) -> dict[str, list[float]]:
    return {name: quantity(name)(probe).tolist() for name in names}
