"""What a verification still has to measure, as jobs that need nothing of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from deepnet_theory.numeric.measuring.measurement import measurement
from deepnet_theory.numeric.measuring.model_update import (
    ModelUpdate,
    average_draws,
    further_draws,
    measure_draw,
    measure_model_update,
    next_eta,
)
from deepnet_theory.numeric.measuring.probe import Probe
from deepnet_theory.numeric.running.record import Record
from deepnet_theory.numeric.running.workers import Job
from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stepping.reference import compare_with_real_step
from deepnet_theory.runtime import Description
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection


class Schedule:
    """What is missing from ``record``: the first draw of a depth is taken here, the rest are jobs.

    Only the learning rate passes from one depth to the next, and with the first draw it is
    known. ``names`` are the measurements and ``shares`` the shares of ΔF that are wanted;
    ``complete`` receives each depth's model update when its last draw has come.
    """

    def __init__(
        self,
        selection: Selection,
        rule: Rule,
        settings: Settings,
        record: Record,
        names: Sequence[str],
        shares: Sequence[str],
        complete: Callable[[ModelUpdate], None],
    ) -> None:
        self.selection, self.rule, self.settings, self.record = selection, rule, settings, record
        self.names, self.shares, self.complete = tuple(dict.fromkeys(names)), shares, complete
        self.first: dict[str, ModelUpdate] = {}

    @property
    def stages(self) -> int:
        """How often each layer is worked on: the first draw, the others, shares, premises."""
        return 2 + len(self.shares) + bool(self.names)

    def first_draw(self, depth: Depth) -> None:
        """Find the step's size at one depth and take its first draw, if the record has none."""
        known = self.record.updates.get(depth_key(depth))
        if known is None:
            eta = next_eta(depth, [*self.record.updates.values(), *self.first.values()])
            known = measure_model_update(*self._at(depth), eta=eta)
        self.first[depth_key(depth)] = known

    def further(self, depth: Depth) -> Iterator[Job]:
        """The jobs that complete a depth whose first draw is there."""
        key, layers = depth_key(depth), sum(depth.values())
        first, samples = self.first[key], self.record.samples
        at = self._at(depth)
        if key in self.record.updates:
            self.complete(first)
        else:
            draws = further_draws(first, self.settings.draws)
            drawn = {0: first}
            if not draws:
                self._complete(first)
            for draw in draws:
                yield Job(
                    f"model update at depth {key}",
                    layers / len(draws),
                    partial(measure_draw, *at, first.eta, draw),
                    partial(self._draw, drawn, draw, len(draws) + 1),
                )
        for share in self.shares:
            kept = samples.setdefault(share_key(share), {})
            if key not in kept:
                yield Job(
                    f"the share {share} at depth {key}",
                    layers,
                    partial(_share, Probe(*at, first), share),
                    partial(kept.__setitem__, key),
                )
        missing = [name for name in self.names if key not in samples.setdefault(name, {})]
        if missing:
            yield Job(
                f"assumptions at depth {key}",
                layers,
                partial(_samples, Probe(*at, first), missing),
                partial(self._sampled, key),
            )

    def reference(self, depth: Depth) -> Iterator[Job]:
        """The step of the real optimizer at one depth."""
        key = depth_key(depth)
        if key not in self.record.references:
            yield Job(
                f"the real optimizer at depth {key}",
                sum(depth.values()),
                partial(compare_with_real_step, *self._at(depth), self.first[key].eta),
                partial(self.record.references.__setitem__, key),
            )

    def _at(self, depth: Depth) -> tuple[Selection, Rule, Depth, Settings]:
        return self.selection, self.rule, depth, self.settings

    def _draw(self, drawn: dict[int, ModelUpdate], draw: int, count: int, one: ModelUpdate) -> None:
        drawn[draw] = one
        if len(drawn) == count:  # averaged in the order of the draws, whichever came first
            self._complete(average_draws([drawn[i] for i in sorted(drawn)]))

    def _complete(self, update: ModelUpdate) -> None:
        self.record.updates[depth_key(update.depth)] = update
        self.complete(update)

    def _sampled(self, key: str, found: dict[str, list[float]]) -> None:
        for name, values in found.items():
            self.record.samples[name][key] = values


def share_key(share: str) -> str:
    """The name of a share's samples in a record."""
    return f"share {share}"


def share_of(share: str) -> Callable[[Description], bool]:
    """The parameters of a share: a part's, a matrix's by its name, or a role's."""
    return lambda d: share in (d.part, d.name, d.role.value)


def _share(probe: Probe, share: str) -> list[float]:
    values: list[float] = probe.share(share_of(share), probe.settings.draws).tolist()
    return values


def _samples(probe: Probe, names: Sequence[str]) -> dict[str, list[float]]:
    return {name: measurement(name).of(probe).tolist() for name in names}
