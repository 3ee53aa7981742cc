r"""A reading held against rules: which fits, and what differs from the nearest.

A gain is :math:`\mathrm{rms}(W)/\sqrt{2/(\text{fan\_in} + \text{fan\_out})}`. Its interval comes
from the fourth moment of the entries, at 95 % for one matrix as it is told; for the verdict at
95 % for all matrices of the model together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, median

from deepnet_theory.runtime.building import checked
from deepnet_theory.spec.audit import (
    Audit,
    Audited,
    Change,
    Finding,
    Gain,
    Wanted,
    WantedSublayer,
)
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.placement import placement, placements
from deepnet_theory.spec.reading import UNKNOWN, Matrix, Reading, Sublayer
from deepnet_theory.spec.sublayer import sublayer
from deepnet_theory.spec.verdict import Verdict

EXACT = 0.01  # of a coefficient that code computes: published constants have two decimals
SIMILAR = 1.25  # differences within this factor are one finding
SCALED = ("value", "output", "fc1", "fc2", "gate", "up", "down")


@dataclass(frozen=True)
class Difference:
    """One α, one placement or one gain of one sublayer that is ``ratio`` times the wanted one."""

    index: int  # of the sublayer
    item: str  # alpha, norms, or a matrix's role
    ratio: float
    found: float
    wanted: float
    matrix: Matrix | None = None


def judge(
    reading: Reading,
    rules: Sequence[Wanted],
    model: str = "",
    optimizer: str | None = None,
    rates: Mapping[str, float] | None = None,
    why_not: str = "",
) -> Audit:
    """Hold a reading against rules; ``why_not`` says why there are none, where there are none."""
    judged = [(rule, list(differences(reading, rule))) for rule in rules]
    fitting = [rule for rule, different in judged if not different]
    nearest, different = min(judged, key=lambda j: _distance(reading, *j), default=(None, []))
    if fitting:
        nearest, different = fitting[0], []
    found = findings(reading, nearest, different) if nearest else ()
    found += tuple(_of_rates(reading, nearest, rates or {})) if nearest else ()
    if found:
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.SUPPORTED if nearest and reading.understood else Verdict.UNDECIDED
    own = (nearest.name, nearest.detail) if nearest else None
    follows = nearest.name if nearest and verdict is Verdict.SUPPORTED else None
    others = [f"{r.name} ({r.detail})" for r in fitting[1:] if (r.name, r.detail) != own]
    return Audit(
        model=model,
        reading=reading,
        placement=_placement(reading),
        optimizer=optimizer,
        against=nearest.name if nearest else None,
        detail=nearest.detail if nearest else "",
        follows=follows,
        alike=tuple(dict.fromkeys(others)),
        sublayers=tuple(_audited(reading, nearest)),
        findings=found,
        remarks=(*([why_not] if why_not else []), *_remarks(reading, nearest, rates)),
        plan=tuple(_plan(reading, different)),
        verdict=verdict,
        effect=effect(reading, nearest, different) if nearest and different else None,
        rates=dict(rates or {}),
    )


# ------------------------------------------------------------------------------ differences


def gain(matrix: Matrix, level: float = 0.95) -> tuple[float, float, float]:
    """The gain of a matrix and the ends of its interval."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    size, margin = matrix.size / matrix.xavier, z * matrix.error / matrix.xavier
    return size, size - margin, size + margin


def differences(reading: Reading, rule: Wanted) -> Iterator[Difference]:
    """Where a reading is not as a rule wants it."""
    count = sum(len(s.matrices) for s in reading.sublayers)
    for index, (s, wanted) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        if s.around != wanted.norms:
            yield Difference(index, "norms", 1.0, 1.0, 1.0)
        if not math.isclose(s.alpha, wanted.alpha, rel_tol=EXACT):
            yield Difference(index, "alpha", s.alpha / wanted.alpha, s.alpha, wanted.alpha)
        for m in s.matrices:
            if _unknown(m):
                continue
            size, low, high = gain(m, 1 - 0.05 / count)
            aim = wanted.gain(m)
            if not low * (1 - EXACT) <= aim <= high * (1 + EXACT):
                ratio = size / aim if aim else math.inf
                yield Difference(index, m.role, ratio, size, aim, m)


def _unknown(m: Matrix) -> bool:
    return m.role == UNKNOWN or m.factor


def _distance(
    reading: Reading, rule: Wanted, different: list[Difference]
) -> tuple[int, bool, float]:
    """How much differs in kind, and then in size; a derived rule is nearer than a published one.

    What a rule has of its own, a gain or an α that is not 1, speaks for it where the model has
    it too. A coefficient that the code multiplies with was computed from some rule, and weighs as
    much as all matrices of the sublayer.
    """
    differ = {(d.index, d.item) for d in different}
    kinds: dict[tuple[str, str, str], int] = {}
    for index, (s, w) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        written = len(s.matrices) if s.alpha_on else 1
        items = {"norms": (2, 0), "alpha": (written, written * (w.alpha != 1))}
        items |= {m.role: (1, int(w.gains.get(m.role, 1.0) != 1)) for m in s.matrices}
        for item, (against, for_it) in items.items():
            key = (s.stack, s.kind, item)
            now = against if (index, item) in differ else -for_it
            kinds[key] = max(kinds.get(key, now), now)
    return sum(kinds.values()), rule.published, sum(abs(_log(d.ratio)) for d in different)


def _log(ratio: float) -> float:
    return math.log(ratio) if 0 < ratio < math.inf else 10.0


def _placement(reading: Reading) -> str | None:
    """The placement whose norms are the model's in every sublayer, with an α or without one."""
    around = {s.around for s in reading.sublayers}
    multiplied = any(s.alpha_on == "branch" for s in reading.sublayers)
    fitting = [p for p in placements().values() if around == {p.norms}]
    fitting.sort(key=lambda p: (p.coefficients(2.0)[1] != 1) != multiplied)
    return fitting[0].name if fitting else None


def _audited(reading: Reading, rule: Wanted | None) -> Iterator[Audited]:
    wanted = rule.sublayers if rule else (None,) * len(reading.sublayers)
    differ = {(d.index, id(d.matrix)) for d in (differences(reading, rule) if rule else ())}
    for index, (s, w) in enumerate(zip(reading.sublayers, wanted, strict=True)):
        rows = []
        for m in s.matrices:
            aim = None if w is None or _unknown(m) else w.gain(m)
            verdict = "unknown" if aim is None else "follows"
            verdict = "differs" if (index, id(m)) in differ else verdict
            rows.append(Gain(m, *gain(m), aim, verdict))
        yield Audited(s, tuple(rows), None if w is None else w.alpha)


# ---------------------------------------------------------------------------------- effects


def share(s: Sublayer, alpha: float, gains: Mapping[str, float], p: float, q: float) -> float:
    r"""What one update through a sublayer's matrices moves the output by, in orders.

    .. math:: \sum_i \Bigl(\frac{P}{\alpha\beta_i}\Bigr)^{1+p} \beta_i^q, \qquad P = \prod_i \beta_i

    P is 1 where a norm follows the branch, which takes its size away but not a gradient's 1/β_i.
    """
    scaled = [gains[m.role] for m in s.matrices if m.role in SCALED and m.role in gains]
    product = 1.0 if "output" in s.around else math.prod(scaled)
    total: float = sum((product / b / alpha) ** (1 + p) * b**q for b in scaled if b)
    if {"query", "key"} <= gains.keys():
        for own, other in (("query", "key"), ("key", "query")):
            total += (product * gains[other] / alpha) ** (1 + p) * gains[own] ** q
    return total


def effect(reading: Reading, rule: Wanted, different: Sequence[Difference]) -> float | None:
    """What differences multiply the stacks' ‖ΔF‖ after one update with, all else as wanted."""
    if rule.degrees is None or any(d.item == "norms" for d in different):
        return None
    at: dict[int, list[Difference]] = {}
    for d in different:
        at.setdefault(d.index, []).append(d)
    total = 0.0
    for index, (s, w) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        gains = {m.role: w.gain(m) for m in s.matrices if not _unknown(m)}
        faulty = gains | {d.item: d.found for d in at.get(index, ()) if d.matrix}
        alpha = next((d.found for d in at.get(index, ()) if d.item == "alpha"), w.alpha)
        before = share(s, w.alpha, gains, *rule.degrees)
        if not before or not alpha or math.isinf(before):
            return None
        total += share(s, alpha, faulty, *rule.degrees) / before
    return total / len(reading.sublayers)


# --------------------------------------------------------------------------------- findings


def findings(
    reading: Reading, rule: Wanted, different: Sequence[Difference]
) -> tuple[Finding, ...]:
    """Differences of one kind over many layers as one finding, the worst first."""
    groups: list[list[Difference]] = []
    for d in different:
        s = reading.sublayers[d.index]
        for group in groups:
            first = reading.sublayers[group[0].index]
            alike = (first.stack, first.kind, group[0].item) == (s.stack, s.kind, d.item)
            near = abs(_log(group[0].ratio) - _log(d.ratio)) < math.log(SIMILAR)
            if alike and near:
                group.append(d)
                break
        else:
            groups.append([d])
    found = [_finding(reading, rule, group) for group in groups]
    return tuple(sorted(found, key=lambda f: -(f.effect or f.size) if f.size else 0))


def _finding(reading: Reading, rule: Wanted, group: list[Difference]) -> Finding:
    first = group[0]
    s, wanted = reading.sublayers[first.index], rule.sublayers[first.index]
    mean = math.exp(sum(_log(d.ratio) for d in group) / len(group))
    size = max(mean, 1 / mean)
    layers = _layers([reading.sublayers[d.index].layer for d in group], reading.layers[s.stack])
    where = f"{s.stack}, {layers}, {s.kind}"
    so = "" if len(group) == 1 else f"  # and in {layers}"
    moved = effect(reading, rule, group)
    if first.item == "norms":
        what = f"the norms stand as in {s.equation}, and {rule.name} is {_equation(wanted)}"
        return Finding(f"{where}: norms", what, size, f"x = {_equation(wanted)}{so}", moved)
    way = "too large" if mean > 1 else "too small"
    if first.item == "alpha":
        why = _why_alpha(reading, s, wanted)
        what = f"alpha is {first.found:.4g}, wanted {first.wanted:.4g}: {size:.3g} times {way}{why}"
        mend = _equation(wanted, f"{wanted.alpha:.4g}*")
        return Finding(f"{where}: alpha", what, size, f"x = {mend}{so}", moved)
    m = first.matrix
    assert m is not None
    why = _why_gain(s, wanted, first, m)
    used = f", used {m.times:.3g} times" if m.times != 1 else ""
    what = (
        f"gain {first.found:.3g}, wanted {first.wanted:.3g}: {size:.3g} times {way} "
        f"(entries of rms {m.size / m.times:.3g}{used}){why}"
    )
    mend = f"{_code(m)} *= {1 / first.ratio:.4g}{so}" if first.ratio else _redrawn(m, first.wanted)
    return Finding(f"{where}, {first.item}: {m.where}", what, size, mend, moved)


def _layers(layers: list[int], of: int) -> str:
    if len(layers) == of > 1:
        return f"all {of} layers"
    if len(layers) > 2 and layers == list(range(layers[0], layers[-1] + 1)):
        return f"layers {layers[0]}-{layers[-1]}"
    return f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}"


def _equation(wanted: WantedSublayer, alpha: str = "alpha*") -> str:
    inner = "branch(norm(x))" if "input" in wanted.norms else "branch(x)"
    inner = f"norm({inner})" if "output" in wanted.norms else inner
    if "sum" in wanted.norms:
        return f"norm({alpha}x + {inner})" if wanted.alpha != 1 else f"norm(x + {inner})"
    return f"x + {inner}/{alpha[:-1]}" if wanted.alpha != 1 else f"x + {inner}"


def _why_alpha(reading: Reading, s: Sublayer, wanted: WantedSublayer) -> str:
    close = [d for d in reading.dropped if math.isclose(d, wanted.alpha, rel_tol=EXACT)]
    if s.alpha == 1 and close:
        return "; x is multiplied by it, and the product is not used"
    if "sum" not in s.around and s.stream != 1:
        return f"; no norm takes the stream back, which grows by {s.stream:.4g} in every sublayer"
    if math.isclose(s.alpha * wanted.alpha, 1, rel_tol=EXACT):
        return "; it multiplies the branch in place of the stream"
    return ""


def _why_gain(s: Sublayer, wanted: WantedSublayer, d: Difference, m: Matrix) -> str:
    """Which well-known mistake gives this size, if one does."""
    interval = 3 * m.error / m.size + EXACT if m.size else EXACT

    def near(value: float) -> bool:
        return math.isclose(d.found, value, rel_tol=interval)

    packed = sum(o.fan_out for o in s.matrices if o.name == m.name)
    as_packed = m.xavier and math.sqrt(2 / (m.fan_in + packed)) / m.xavier
    scaled = {g for role, g in wanted.gains.items() if role in SCALED and g != 1}
    if near(1.0):
        return "; it is not scaled"
    if d.wanted == 1 and any(near(g) for g in scaled):
        return "; it is scaled like value and output, and takes gain 1"
    if d.wanted and near(1 / d.wanted):
        return "; the gain is upside down"
    if packed > m.fan_out and near(as_packed * d.wanted):
        return "; it is drawn with the fans of the packed matrix"
    if any(near(c * d.wanted) for c in _other_laws(m)):
        return "; the gain is on another standard deviation than Xavier's"
    return ""


def _other_laws(m: Matrix) -> tuple[float, ...]:
    """Gains of the other usual laws: fixed 0.02, LeCun, He, and torch's own for a Linear."""
    own = (0.02, math.sqrt(1 / m.fan_in), math.sqrt(2 / m.fan_in), math.sqrt(1 / (3 * m.fan_in)))
    return tuple(std / m.xavier for std in own)


def _code(m: Matrix) -> str:
    whole = f'model.get_parameter("{m.name}").data'
    if m.whole:
        return whole
    start, end = m.outputs[0]
    return f"{whole}[{start}:{end}]" if m.axis == 0 else f"{whole}[:, {start}:{end}]"


def _redrawn(m: Matrix, wanted: float) -> str:
    return f"torch.nn.init.normal_({_code(m)}, std={wanted * m.xavier:.4g})"


def _plan(reading: Reading, different: Sequence[Difference]) -> Iterator[Change]:
    seen = set()
    for d in different:
        m = d.matrix
        if m is not None and (m.name, m.outputs) not in seen:
            seen.add((m.name, m.outputs))
            factor = 1 / d.ratio if d.ratio else math.inf
            yield Change(m.name, m.axis, m.outputs, m.role, d.wanted, factor)


# ---------------------------------------------------------------------------- what stands by


def _of_rates(reading: Reading, rule: Wanted, rates: Mapping[str, float]) -> Iterator[Finding]:
    """Matrices that do not learn at the multiples of one rate that the rule asks for."""
    known = [
        (s, m, rates[m.name], w.rates.get(m.role, 1.0))
        for s, w in zip(reading.sublayers, rule.sublayers, strict=True)
        for m in s.matrices
        if m.name in rates and not _unknown(m)
    ]
    base = median(found / wanted for *_, found, wanted in known) if known else 0.0
    for s, m, found, wanted in known:
        ratio = found / (wanted * base) if base else 1.0
        if not math.isclose(ratio, 1.0, rel_tol=EXACT):
            yield Finding(
                f"{s.stack}, layer {s.layer}, {s.kind}, {m.role}: {m.name}",
                f"learns at {found:.3g}, wanted {wanted * base:.3g}, {wanted:.3g} of the base rate",
                max(ratio, 1 / ratio) if ratio else math.inf,
                f'{{"params": [model.get_parameter("{m.name}")], "lr": {wanted * base:.4g}}}',
            )


def _remarks(
    reading: Reading, rule: Wanted | None, rates: Mapping[str, float] | None
) -> Iterator[str]:
    """What the rule does not decide, and one should know."""
    for stack, size in reading.stream.items():
        if not 0.5 < size < 2 and any("sum" not in s.around for s in reading.stacks[stack]):
            yield f"the {stack}'s stream starts at rms {size:.3g}; the rules take it as 1"
    odd = {n.gain: n.size for s in reading.sublayers for n in s.norms if abs(n.size - 1) > EXACT}
    for name, size in list(odd.items())[:1]:
        yield f"{len(odd)} norm gains are not 1, such as {name} of rms {size:.3g}"
    off = [s for s in reading.sublayers if not s.branch]
    if off:
        yield f"{len(off)} branches are multiplied by 0: they move nothing in the first update"
    if reading.unused:
        yield f"{len(reading.unused)} parameters do not reach the output: {reading.unused[0]} …"
    asked = {role: r for w in rule.sublayers for role, r in w.rates.items()} if rule else {}
    if not rates and any(r != 1 for r in asked.values()):
        told = ", ".join(f"{role} {r:.3g}" for role, r in asked.items() if r != 1)
        yield f"the rule asks for multiples of the learning rate too: {told}"


def of_constants(reading: Reading, constants: Constants | str | Path) -> Wanted:
    """Exported constants as what they want of a model; raises :class:`InputError` for another."""
    c = checked(constants)
    stacks = list(reading.stacks.values())
    fits = len(stacks) == len(c.parts) and all(
        [s.kind for s in own] == [s.kind for s in part.sublayers] * part.layers
        for own, part in zip(stacks, c.parts, strict=True)
    )
    if not fits:
        shape = " and ".join(f"{n} layers of the {name}" for name, n in reading.layers.items())
        wanted = " and ".join(f"{part.layers} of the {part.name}" for part in c.parts)
        raise InputError(
            f"the constants are for layers {wanted} of {c.stack!r}, and the model has {shape}, of "
            f"{', '.join(dict.fromkeys(s.kind for s in reading.sublayers))}"
        )
    where = placement(c.placement)
    rows = []
    for part in c.parts:
        for _ in range(part.layers):
            for index, s in enumerate(part.sublayers):
                stream, branch = where.coefficients(s.alpha)
                gains = {m.name: s.gain(m.name) for m in sublayer(s.kind).matrices}
                rates = {
                    m.name: c.parameter(part.name, index, m.name, m.role).rate
                    for m in sublayer(s.kind).matrices
                }
                rows.append(WantedSublayer(where.norms, stream / branch, gains, rates))
    return Wanted(c.optimizer, "the constants given", c.placement, tuple(rows))
