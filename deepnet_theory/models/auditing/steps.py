"""An optimizer's groups held against a rule: learning rate, ε and weight decay by kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import median

from deepnet_theory.models.auditing.differences import EXACT, unjudged
from deepnet_theory.models.auditing.findings import in_layers
from deepnet_theory.runtime.fitting import Fitted, describe
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.results.audit import Finding, Wanted, WantedStep
from deepnet_theory.spec.results.reading import Reading

STEPPED = {"lr": "learns at", "eps": "has epsilon", "weight_decay": "decays by"}


def steps_of(reading: Reading, c: Constants) -> Iterator[WantedStep]:
    """What constants ask of every parameter; of a packed one, its slowest block's."""
    rows = [
        Fitted(s, part, index % len(part.sublayers))
        for own, part in zip(reading.stacks.values(), c.parts, strict=True)
        for index, s in enumerate(own)
    ]
    if not reading.understood:
        return
    stacks = {part.name: name for name, part in zip(reading.stacks, c.parts, strict=True)}
    outside = {"embedding": c.parts[0].name, "head": c.parts[-1].name}
    for name, blocks in describe(reading, rows).items():
        asked = [
            (c.parameter(outside.get(d.part or "", d.part or ""), d.sublayer, d.name, d.role), d)
            for d in blocks
        ]
        own, d = min(asked, key=lambda one: one[0].rate)
        times = {"lr": own.rate, "eps": own.epsilon, "weight_decay": own.weight_decay}
        what = f"norm {d.name}" if d.role.value.startswith("norm") else d.name
        yield WantedStep(name, stacks.get(d.part or "", d.part or ""), d.layer, d.kind, what, times)


def of_steps(
    reading: Reading, rule: Wanted, groups: Mapping[str, Mapping[str, float]]
) -> Iterator[Finding]:
    """Parameters that do not step at the multiples of one learning rate, ε and decay.

    Those of a stack that have one value and want another are one finding.
    The base of each is the median of found over wanted: most parameters are taken as right.
    """
    steps = rule.steps or tuple(_of_matrices(reading, rule))
    for knob in STEPPED:
        known = [
            (step, groups[step.parameter][knob], step.times[knob])
            for step in steps
            if knob in step.times and knob in groups.get(step.parameter, ())
        ]
        base = median([found / times for _, found, times in known if times] or [0.0])
        alike: dict[tuple[str, float, float], list[WantedStep]] = {}
        for step, found, times in known:
            if not math.isclose(found, times * base, rel_tol=EXACT):
                alike.setdefault((step.stack, found, times), []).append(step)
        for (_, found, times), own in alike.items():
            yield _finding(reading, own, knob, found, times, base)


def _finding(
    reading: Reading, own: list[WantedStep], knob: str, found: float, times: float, base: float
) -> Finding:
    first, aim = own[0], times * base
    ratio = found / aim if aim else math.inf
    layers = sorted({step.layer for step in own if step.layer is not None})
    where = (
        first.stack,
        in_layers(layers, reading.layers[first.stack]) if layers else "",
        " and ".join(dict.fromkeys(step.kind for step in own if step.kind)),
        " and ".join(dict.fromkeys(step.what for step in own)),
    )
    told = ", ".join(part for part in where if part)
    so = "" if len(own) == 1 else f"  # and {len(own) - 1} more"
    return Finding(
        f"{told}: {first.parameter}",
        f"{STEPPED[knob]} {found:.3g}, wanted {aim:.3g}, {times:.3g} of the base",
        max(ratio, 1 / ratio) if ratio else math.inf,
        f'{{"params": [model.get_parameter("{first.parameter}")], "{knob}": {aim:.4g}}}{so}',
    )


def _of_matrices(reading: Reading, rule: Wanted) -> Iterator[WantedStep]:
    """The rates of matrices alone; of a packed parameter its slowest block's."""
    slowest: dict[str, WantedStep] = {}
    for s, w in zip(reading.sublayers, rule.sublayers, strict=True):
        for m in s.matrices:
            times = {"lr": w.rates.get(m.role, 1.0)}
            known = slowest.get(m.name)
            if not unjudged(m) and (known is None or times["lr"] < known.times["lr"]):
                slowest[m.name] = WantedStep(m.name, s.stack, s.layer, s.kind, m.role, times)
    yield from slowest.values()
