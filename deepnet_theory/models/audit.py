"""A reading held against rules: which fits, what differs from the nearest, and how it steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from torch import nn
from torch.optim import Optimizer

from deepnet_theory.definitions.audit import DIFFERENCE, Audit, Finding, PlannedChange
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.definitions.reading import EXACT, UNKNOWN, FoundMatrix, Reading
from deepnet_theory.definitions.record import written
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.subject import (
    Difference,
    Wanted,
    differences,
    gain,
    norms_of,
    rates_of_multiples,
    rows_of,
)
from deepnet_theory.definitions.sublayer import EPSILON
from deepnet_theory.models.applying import lines_of_base
from deepnet_theory.models.asked import asked, describe
from deepnet_theory.models.effect import Effects, Ratio
from deepnet_theory.models.factory import Made
from deepnet_theory.models.findings import findings, in_layers, log, of_start
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.linear import Description
from deepnet_theory.sizes.wanted import degrees

# depths that a model's constants may be of in place of its own, over that
MISTAKEN = tuple(map(Fraction, ("2", "1/2", "3", "1/3", "3/2", "2/3", "4", "1/4")))


def judge(
    made: Made,
    reading: Reading,
    rules: Sequence[Wanted],
    model: str = "",
    optimizer: str | None = None,
    groups: Mapping[str, Mapping[str, float]] | None = None,
    why_not: str = "",
    at_depth: Callable[[Mapping[str, int]], Sequence[Wanted]] | None = None,
) -> Audit:
    """Hold a reading against rules, and an optimizer's ``groups`` by parameter name.

    ``why_not`` says why no rule speaks of the model; what differs from a scheme is then no fault.
    Where no rule fits, those that ``at_depth`` gives of another depth are tried, and then the
    nearest is taken: one of the model's placement, and without an optimizer a published one.
    """
    judged = [(rule, list(differences(reading, rule))) for rule in rules]
    fitting = [rule for rule, different in judged if not different]
    nearest: Wanted | None = fitting[0] if fitting else None
    different: list[Difference] = []
    if judged and not fitting and not why_not:
        nearest = None if at_depth is None else _of_a_mistaken_depth(reading, at_depth)
        if nearest is None:
            published = optimizer is None
            nearest, different = min(judged, key=lambda j: distance(reading, j[0], j[1], published))
    said: list[Finding] = []
    moved: Ratio | None = None
    sublayers = tuple(_audited(reading, nearest, different))
    if nearest and nearest.layers:
        said = [_of_another_depth(reading, nearest, different)]
        different = []
    elif nearest:
        if not groups and not nearest.grouped and not why_not:
            different += rates_of_multiples(reading, nearest)
        if different:
            effects = Effects(made, reading, nearest, _relative(groups or {}))
            said, moved = findings(reading, nearest, different, effects)
        said += of_start(made.module, reading, nearest)
        said += of_steps(reading, nearest, groups or {})
        said += [
            Finding(
                line.partition(" ")[0],
                f"the forward pass lacks the multiplier {times:.4g} that the base asks for",
                max(times, 1 / times),
                line,
            )
            for line, times in nearest.lines
        ]
    if any(f.severity == DIFFERENCE for f in said):
        verdict = Verdict.REFUTED
    else:
        known = nearest and reading.understood
        verdict = Verdict.SUPPORTED if known else Verdict.UNDECIDED
    name, detail = (nearest.name, nearest.detail) if nearest else ("", "")
    others = [f"{r.name} ({r.detail})" for r in fitting[1:] if (r.name, r.detail) != (name, detail)]
    return Audit(
        model, reading, reading.placement, optimizer, against=name or None, detail=detail,
        follows=name if verdict is Verdict.SUPPORTED else None,
        alike=tuple(dict.fromkeys(others)), sublayers=sublayers, findings=tuple(said),
        remarks=tuple(_remarks(reading, nearest, groups)), plan=tuple(_plan(different)),
        verdict=verdict, effect=moved and moved.mean, effect_low=moved and moved.low,
        effect_high=moved and moved.high,
        refusal="" if nearest else why_not,
        rates={name: group["lr"] for name, group in (groups or {}).items()},
    )  # fmt: skip


def _relative(groups: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The learning rates of an optimizer's groups over their median."""
    base = median([group["lr"] for group in groups.values()] or [0.0])
    return {name: group["lr"] / base for name, group in groups.items()} if base else {}


def distance(
    reading: Reading, rule: Wanted, different: list[Difference], published: bool = False
) -> tuple[int, bool, int, bool, float]:
    """How much differs in kind, and then in size; of two alike a ``published`` rule or a derived.

    A rule of the model's own placement is nearest, however much else differs. A model with norms
    everywhere that a rule has not is of another design than the rule's.

    What a rule has of its own, a gain or an α that is not 1, speaks for it where the model has
    it too; the size that torch makes a Linear with was chosen by nobody and speaks for none. A
    coefficient that the code multiplies with was computed from some rule, and weighs as much as
    all matrices of the sublayer.
    """
    differ = {(d.index, d.item) for d in different}
    rows = list(zip(reading.sublayers, rule.sublayers, strict=True))
    kinds: dict[tuple[str, str, str], int] = {}
    for index, (s, w) in enumerate(rows):
        written = len(s.matrices) if s.alpha_on else 1
        items = {"norms": (2, 0), "alpha": (written, written * (w.alpha != 1))}
        items |= {
            m.role: (1, int(w.gains.get(m.role, 1.0) != 1 and not _as_made(m))) for m in s.matrices
        }
        for item, (against, for_it) in items.items():
            key = (s.stack, s.kind, item)
            now = against if (index, item) in differ else -for_it
            kinds[key] = max(kinds.get(key, now), now)
    designed = all(norms_of(s) > w.norms for s, w in rows)
    sizes = sum(abs(log(d.ratio)) for d in different)
    misplaced = sum(d.item == "norms" for d in different)
    return misplaced, designed, sum(kinds.values()), rule.published is not published, sizes


def _as_made(m: FoundMatrix) -> bool:
    """Whether a matrix has the size that torch makes a Linear with, uniform within 1/√fan_in."""
    torchs = math.sqrt(1 / (3 * m.fan_in))
    return abs(m.size - torchs) <= 3 * m.error + EXACT * torchs


def _of_a_mistaken_depth(
    reading: Reading, at_depth: Callable[[Mapping[str, int]], Sequence[Wanted]]
) -> Wanted | None:
    """A rule that the model follows at a depth that is not its own; published ones first."""
    derived: Wanted | None = None
    for times in MISTAKEN:
        layers = {name: n * times for name, n in reading.layers.items()}
        if any(n.denominator != 1 for n in layers.values()):
            continue
        made_for = {name: int(n) for name, n in layers.items()}
        first, *_, last = (*made_for.values(), *made_for.values())
        for rule in at_depth({"N": first, "M": last}):
            if any(differences(reading, rule)) or not _together(reading, rule):
                continue
            if rule.published:
                return replace(rule, layers=made_for)
            derived = derived or replace(rule, layers=made_for)
    return derived


def _together(reading: Reading, rule: Wanted) -> bool:
    """Whether all matrices of each role have its gain together, more finely than each alone."""
    roles: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for s, w in zip(reading.sublayers, rule.sublayers, strict=True):
        for m in (m for m in s.matrices if m.role != UNKNOWN and m.size and w.gain(m)):
            off = log(m.size / m.xavier / w.gain(m))
            roles.setdefault((s.stack, s.kind, m.role), []).append((off, m.error / m.size))
    return all(
        abs(sum(off for off, _ in each))
        <= 3 * math.hypot(*(e for _, e in each)) + EXACT * len(each)
        for each in roles.values()
    )


def _audited(
    reading: Reading, rule: Wanted | None, different: Sequence[Difference]
) -> Iterator[dict[str, Any]]:
    wanted = rule.sublayers if rule else (None,) * len(reading.sublayers)
    differ = {(d.index, id(d.matrix)) for d in different}
    for index, (s, w) in enumerate(zip(reading.sublayers, wanted, strict=True)):
        matrices = []
        for m in s.matrices:
            aim = None if w is None or m.role == UNKNOWN else w.gain(m)
            verdict = "unknown" if aim is None else "follows"
            verdict = "differs" if (index, id(m)) in differ else verdict
            size, low, high = gain(m)
            matrices.append({
                "name": m.name, "rows": m.rows, "role": m.role, "gain": size, "low": low,
                "high": high, "wanted": aim, "verdict": verdict, "std": m.size, "axis": m.axis,
                "fan_in": m.fan_in, "fan_out": m.fan_out,
            })  # fmt: skip
        yield {
            "stack": s.stack, "layer": s.layer, "kind": s.kind, "equation": s.equation,
            "alpha": s.alpha, "alpha_on": s.alpha_on, "alpha_wanted": w and w.alpha,
            "stream_coefficient": s.stream, "branch_coefficient": s.branch, "learnt": s.learnt,
            "norms": written(s.norms), "matrices": matrices,
        }  # fmt: skip


def _plan(different: Sequence[Difference]) -> Iterator[PlannedChange]:
    """What to multiply each matrix by, once where several sublayers use it."""
    matrices = {(d.matrix.name, d.matrix.outputs): d for d in reversed(different) if d.matrix}
    for d in reversed(matrices.values()):
        assert d.matrix is not None
        m, factor = d.matrix, 1 / d.ratio if d.ratio else math.inf
        yield PlannedChange(m.name, m.axis, m.outputs, m.role, d.wanted, factor)


def _remarks(
    reading: Reading, rule: Wanted | None, groups: Mapping[str, object] | None
) -> Iterator[str]:
    """What the rule does not decide, and one should know."""
    for stack, size in reading.stream.items():
        aim = rule.stream.get(stack, 1.0) if rule else 1.0
        if not 0.5 < size / aim < 2 and any("sum" not in s.around for s in reading.stacks[stack]):
            yield f"the {stack}'s stream starts at rms {size:.3g}; the rules take it as {aim:.3g}"
    judged = [n for s in reading.sublayers if s.kind != UNKNOWN for n in s.ruled_norms]
    odd = {n.gain: n.size for n in judged if abs(n.size - 1) > EXACT}
    for name, size in list(odd.items())[:1]:
        which = name or "one that is no parameter,"
        yield f"{len(odd)} norm gains are not 1, such as {which} of rms {size:.3g}"
    if reading.unused:
        yield f"{len(reading.unused)} parameters do not reach the output: {reading.unused[0]} …"
    known = groups or {}
    steps = _steps(reading, rule) if rule and known else ()
    if missing := [s.parameter for s in steps if s.parameter not in known]:
        yield f"{len(missing)} parameters are in no group of the optimizer, such as {missing[0]}"
    rows = rule.sublayers if rule else ()
    for where, times in {at: e for w in rows for at, e in w.norm_epsilon.items()}.items():
        yield (
            f"the rule asks for another epsilon of norms too, which is not read: on the {where}, "
            f"{times:.3g} times {EPSILON:g}"
        )
    asked = (f"{role} {rate:.3g}" for w in rows for role, rate in w.rates.items() if rate != 1)
    if (rates := ", ".join(dict.fromkeys(asked))) and not groups:
        yield f"the rule asks for multiples of the learning rate too: {rates}"


def _of_another_depth(reading: Reading, rule: Wanted, different: Sequence[Difference]) -> Finding:
    """Constants made for another depth: nothing is fixed by their numbers."""
    assert rule.layers is not None
    wrong = {name: n for name, n in reading.layers.items() if n != rule.layers[name]}
    made_for = " and ".join(
        f"{rule.layers[name]} layers of the {name}, the model has {n}" for name, n in wrong.items()
    )
    has = "are not those of" if different else "are those of"
    depth = ", ".join(map(str, reading.layers.values()))
    what = f"the constants are for {made_for}; its alpha and gains {has} the constants"
    asked = f"({depth})" if len(reading.layers) > 1 else depth
    export = f"constants = deepnet_theory.export(derivation, depth={asked})"
    if not rule.grouped:
        what = f"these are the constants of {rule.name} for {made_for}"
        sublayers = {name: len(rows) for name, rows in reading.stacks.items()}
        what += ": N counts layers, not sublayers" * (rule.layers == sublayers)
        export = f"# take the constants of {rule.name} for {depth} layers"
    size = max(max(n / rule.layers[name], rule.layers[name] / n) for name, n in wrong.items())
    return Finding(f"{', '.join(wrong)}: depth", what, size, export)


def of_constants(reading: Reading, constants: Constants | str | Path) -> Wanted:
    """Exported constants as what they want of a model, with how its parameters step.

    Raises :class:`InputError` for constants of another model, and warns as ``apply_`` does.
    """
    c = checked(constants)
    c.warn()
    try:
        rule = rows_of(reading, c)
    except Refusal as refusal:
        raise InputError(str(refusal)) from None
    if c.optimizer in OPTIMIZERS and len(c.parts) == len(reading.stacks):
        layer = ";".join(part.described(",") for part in c.parts)
        selection = Selection(c.optimizer, placement=c.placement, norm=c.norm, stack=c.stack,
                              layer=layer)  # fmt: skip
        powers = degrees(selection.the_optimizer)
        rule = replace(rule, selection=selection, degrees=powers)

    def steps(d: Description) -> dict[str, float]:
        own = asked(d, c)
        return {"lr": own.rate, "eps": own.epsilon, "weight_decay": own.weight_decay}

    lines = tuple(lines_of_base(reading, c)) if c.base and reading.logits else ()
    return replace(rule, steps=steps, grouped=True, lines=lines)


def name_and_groups(
    optimizer: Optimizer, model: nn.Module | Made
) -> tuple[str, dict[str, dict[str, float]]]:
    """The name of its first update; ``lr``, ``eps`` and ``weight_decay`` of every parameter.

    The second is by parameter name, and then by those three, without what the optimizer lacks.
    """
    if not isinstance(optimizer, Optimizer):
        raise InputError(
            f"{type(optimizer).__name__} is no torch optimizer; give one, or the name of one"
        )
    name = type(optimizer).__name__.lower()
    if name == "sgd" and any(group.get("nesterov") for group in optimizer.param_groups):
        name = "nesterov"
    if name not in OPTIMIZERS:
        raise InputError(
            f"the optimizer {type(optimizer).__name__} is none of {', '.join(OPTIMIZERS)}; give "
            "the name of the one whose first update is its own"
        )
    module = model.module if isinstance(model, Made) else model
    names = {id(p): n for n, p in module.named_parameters()}
    return name, {
        names[id(p)]: {knob: float(group[knob]) for knob in KNOBS if knob in group}
        for group in optimizer.param_groups
        for p in group["params"]
        if id(p) in names
    }


# ------------------------------------------------------------------ how parameters step


class Asked(NamedTuple):
    """A parameter, what it is, and what multiplies the knobs that a user chooses for its steps."""

    parameter: str
    stack: str
    of: Description
    times: dict[str, float]


KNOBS = {"lr": "learns at", "eps": "has epsilon", "weight_decay": "decays by"}


def _steps(reading: Reading, rule: Wanted) -> Iterator[Asked]:
    """What a rule asks of every parameter's steps; of a packed one, its slowest block's."""
    rows = list(zip(reading.sublayers, rule.sublayers, strict=True))
    rates = {(s.stack, s.layer, s.kind): w.rates for s, w in rows}
    stacks = {w.part: s.stack for s, w in rows}

    def by_rates(d: Description) -> dict[str, float]:
        own = rates.get((d.part or "", d.layer or 0, d.kind or ""), {})
        judged = d.name in own or (d.is_matrix and d.sublayer is not None)
        return {"lr": own.get(d.name, 1.0) / rule.counts(d.times)} if judged else {}

    for name, blocks in describe(reading, rule).items() if reading.understood else ():
        each = [(times, d) for d in blocks if (times := (rule.steps or by_rates)(d))]
        if each:
            times, d = min(each, key=lambda one: one[0].get("lr", 1.0))
            yield Asked(name, stacks.get(d.part or "", d.part or ""), d, times)


def of_steps(
    reading: Reading, rule: Wanted, groups: Mapping[str, Mapping[str, float]]
) -> Iterator[Finding]:
    """Parameters that do not step at the multiples of one learning rate, ε and decay.

    Those of a stack that have one value and want another are one finding.
    The base of each is the median of found over wanted: most parameters are taken as right.
    """
    steps = tuple(_steps(reading, rule)) if groups else ()
    for knob in KNOBS:
        known = [
            (step, groups[step.parameter][knob], step.times[knob])
            for step in steps
            if knob in step.times and knob in groups.get(step.parameter, ())
        ]
        base = median([value / times for _, value, times in known if times] or [0.0])
        alike: dict[tuple[str, float, float], list[Asked]] = {}
        for step, value, times in known:
            if not math.isclose(value, times * base, rel_tol=EXACT):
                alike.setdefault((step.stack, value, times), []).append(step)
        for (_, value, times), group in alike.items():
            yield _finding(reading, group, knob, value, times, base)


def _finding(
    reading: Reading, group: list[Asked], knob: str, value: float, times: float, base: float
) -> Finding:
    first, aim = group[0], times * base
    ratio = value / aim if aim else math.inf
    layers = sorted({step.of.layer for step in group if step.of.layer is not None})
    whats = [f"{'norm ' * s.of.role.value.startswith('norm')}{s.of.name}" for s in group]
    where = (
        first.stack,
        in_layers(layers, reading.layers[first.stack]) if layers else "",
        " and ".join(dict.fromkeys(step.of.kind for step in group if step.of.kind)),
        " and ".join(dict.fromkeys(whats)),
    )
    so = "" if len(group) == 1 else f"  # and {len(group) - 1} more"
    return Finding(
        f"{', '.join(filter(None, where))}: {first.parameter}",
        f"{KNOBS[knob]} {value:.3g}, expected {aim:.3g}, {times:.3g} times the median base",
        max(ratio, 1 / ratio) if ratio else math.inf,
        f'{{"params": [model.get_parameter("{first.parameter}")], "{knob}": {aim:.4g}}}{so}',
    )
