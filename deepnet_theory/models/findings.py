"""Differences in words: where, what, how many times, and the line that fixes it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

import torch
from torch import nn

from deepnet_theory.definitions.audit import DIFFERENCE, REMARK, Finding
from deepnet_theory.definitions.reading import (
    EXACT,
    FoundMatrix,
    FoundSublayer,
    Reading,
    residual_equation,
)
from deepnet_theory.definitions.subject import INSIDE, RATE_OF, Difference, Wanted, WantedSublayer
from deepnet_theory.definitions.sublayer import sublayer
from deepnet_theory.models.applying import head_std, is_high, is_tied
from deepnet_theory.models.asked import blocks
from deepnet_theory.models.branches import runs
from deepnet_theory.models.effect import SLIGHT, Effects, Ratio

FAR = 10.0  # the logarithm of a ratio that is none
SIMILAR = 1.25  # layers whose ratios are within this factor differ alike


def findings(
    reading: Reading, rule: Wanted, different: Sequence[Difference], effects: Effects
) -> tuple[list[Finding], Ratio | None]:
    """Differences of one kind over many layers as one finding, the worst first; and what they do.

    That is measured for all together. Gains of matrices that the rule does not scale, such as
    query's, are remarks where they leave ‖ΔF‖ as it is.
    """
    groups: list[list[Difference]] = []
    for d in different:
        s = reading.sublayers[d.index]
        for group in groups:
            first = reading.sublayers[group[0].index]
            alike = (first.stack, first.kind, group[0].item) == (s.stack, s.kind, d.item)
            alike &= rule.sublayers[group[0].index].norms == rule.sublayers[d.index].norms
            near = abs(log(group[0].ratio) - log(d.ratio)) < math.log(SIMILAR)
            if alike and (near or d.item == "alpha"):
                group.append(d)
                break
        else:
            groups.append([d])
    groups.sort(key=lambda group: -abs(log(group[0].ratio)))
    unscaled = [d for d in different if _is_unscaled(reading.sublayers[d.index], d)]
    scaled = [d for d in different if d not in unscaled]
    weighed = effects.of(unscaled, scaled) if unscaled else None
    slight = weighed and weighed.low >= 1 - SLIGHT and weighed.high <= 1 + SLIGHT
    light = unscaled if slight else []
    said = []
    for group in groups:
        severity = REMARK if group[0] in light else DIFFERENCE
        said.append(replace(_finding(reading, rule, group), severity=severity))
    said.sort(key=lambda f: f.severity)  # differences come first
    return said, effects.of(different) if len(light) < len(different) else None


def _is_unscaled(s: FoundSublayer, d: Difference) -> bool:
    return d.item.removeprefix(RATE_OF) in {m.name for m in sublayer(s.kind).unscaled}


def _finding(reading: Reading, rule: Wanted, group: list[Difference]) -> Finding:
    first = group[0]
    s, wanted, m = reading.sublayers[first.index], rule.sublayers[first.index], first.matrix
    equal, mean = _equal(group), _mean(group)
    size = max(math.inf if d.ratio in (0, math.inf) else _apart(d.ratio) for d in group)
    if equal and size < math.inf:
        size = _apart(mean)
    numbers = dict.fromkeys(reading.sublayers[d.index].layer for d in group)
    layers = in_layers(list(numbers), reading.layers[s.stack])
    where = f"{s.stack}, {layers}, {s.kind}"
    where += f": {first.item}" if m is None else f", {first.item}: {m.where}"
    so = "" if len(group) == 1 else f"  # and in {layers}"
    if first.item == "norms":
        what = f"the norms stand as in {s.equation}, and {rule.name} is {_equation(wanted)}"
        if INSIDE in wanted.norms:
            what += ", with one more norm within the branch"
        mend = f"x = {_equation(wanted)}"
    elif first.item == "reads":
        what = (
            f"the branch reads alpha*x, {s.stream:.4g}*x, and is to read x: its matrices take in "
            "more, and their steps count more; their weights stay as they are"
        )
        mend = f"x = {_equation(wanted, f'{wanted.alpha:.4g}')}"
    elif first.item.startswith(RATE_OF):
        matrix = next(m for m in s.matrices if m.role == first.item.removeprefix(RATE_OF))
        what = (
            f"the forward pass multiplies it by {first.found:.4g}, so that one step of it counts "
            f"{first.ratio:.3g} times; take the factor out, or divide its learning rate by that"
        )
        of = f'model.get_parameter("{matrix.name}")'
        mend = f'{{"params": [{of}], "lr": lr * {1 / first.ratio:.4g}}}'
    elif m is None:
        what = f"alpha is {_held(group, '.4g')}" + f" (in {s.line})" * bool(s.line)
        mend = f"x = {_equation(wanted, f'{wanted.alpha:.4g}')}"
    else:
        used = f", used {m.times:.3g} times" if m.times != 1 else ""
        entries = [d.matrix.entries for d in group if d.matrix is not None]
        rms = f"{m.entries:.3g}" if equal else _span(entries)
        what = f"gain {_held(group, '.3g')} (entries of rms {rms}{used})"
        if not m.times:
            what = f"the forward pass multiplies it by 0 (its entries have rms {rms})"
            mend, so = f"# find the 0 that multiplies what enters or leaves {m.where}", ""
        elif first.ratio:
            mend = m.code(f"{{}} *= {1 / mean:.4g}")
            so += "" if equal else ", each by its factor in the plan"
        else:
            std, so = first.wanted * m.xavier, ""
            mend = m.code(f"torch.nn.init.normal_({{}}, std={std:.4g})")
    return Finding(where, what, size, mend + so, line=s.line)


def of_start(model: nn.Module, reading: Reading, rule: Wanted) -> Iterator[Finding]:
    """What starts wrong beside α and gains: layers that are copies, a head, outer matrices."""
    yield from _of_copies(model, reading)
    logits, tied = reading.logits, is_tied(reading)
    # of a state of rms 1, Xavier's head makes logits of a variance below 2, half as many nats
    if logits is not None and is_high(logits, logits.loss - 1):
        head, std = logits.head, head_std(logits)
        mend = head.code(f"torch.nn.init.normal_({{}}, std={std:.4g})")
        if tied:
            mend = "# multiply the logits by a number below 1: apply_ says which, in its lines"
        yield Finding(
            f"head: {head.where}",
            f"the loss starts at {logits.loss:.3g}, and ln {head.fan_out} is {logits.even:.3g}: "
            f"the head's entries have rms {head.entries:.3g}",
            logits.loss / logits.even,
            mend,
        )
    by_xavier = [w for w in rule.sublayers if rule.published and w.std is None]
    scaled = {g for w in by_xavier for g in w.gains.values()} - {0.0, 1.0}
    width = next((m.fan_in for s in reading.sublayers for m in s.matrices), 1)
    outer = [(t.name, t.size, t.rows) for t in reading.tables if t.name]
    outer += [(logits.head.where, logits.head.entries, logits.head.fan_out)] if logits else []
    for g in scaled:
        off = [one for one in dict.fromkeys(outer) if _is_xavier(one[1] / g, one[2], width)]
        # one alone may have that size by chance
        for name, size, _ in off if len(off) == len(set(outer)) > 1 else ():
            yield Finding(
                f"{name}: gain",
                f"its entries have rms {size:.3g}, {g:.3g} times Xavier's, as those that "
                f"{rule.name} scales; it scales none outside the layers",
                _apart(g),
                f'torch.nn.init.xavier_normal_(model.get_parameter("{name}").data)',
            )


def _is_xavier(size: float, rows: int, columns: int) -> bool:
    error = 3 / math.sqrt(2 * rows * columns)
    return math.isclose(size, math.sqrt(2 / (rows + columns)), rel_tol=error)


def _of_copies(model: nn.Module, reading: Reading) -> Iterator[Finding]:
    """Stacks whose layers start with the same entries, though each has its own parameters."""
    for stack, row in reading.stacks.items():
        kinds: dict[tuple[str, int], dict[str, FoundMatrix]] = {}
        for s in row:
            for place, m in enumerate(m for m in s.matrices if m.size):
                kinds.setdefault((s.kind, place), {}).setdefault(m.where, m)
        several = [[*alike.values()] for alike in kinds.values() if len(alike) > 1]
        entries = [[torch.cat([*blocks(model, m)]) for m in alike] for alike in several]
        copied = bool(entries) and all(torch.equal(w, first) for first, *rest in entries
                                       for w in rest)  # fmt: skip
        if copied:
            count = reading.layers[stack]
            yield Finding(
                f"{stack}, all {count} layers",
                f"the layers start as copies of one: {several[0][0].where} and "
                f"{several[0][1].where} have the same entries; copies add up as their number, "
                "and layers drawn one by one as its root",
                math.sqrt(count),
                "for p in model.parameters():  # each layer by itself\n"
                "    if p.dim() > 1: torch.nn.init.xavier_normal_(p)",
            )


def _apart(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _mean(group: Sequence[Difference]) -> float:
    first = group[0].ratio
    return math.exp(fmean(log(d.ratio) for d in group)) if 0 < first < math.inf else first


def _equal(group: Sequence[Difference]) -> bool:
    """Whether all have one ratio and one wanted value, to what the matrices' entries say."""
    mean = _mean(group)
    return all(
        math.isclose(d.ratio, mean, rel_tol=EXACT + _noise(d.matrix))
        and math.isclose(d.wanted, group[0].wanted, rel_tol=EXACT)
        for d in group
    )


def _noise(m: FoundMatrix | None) -> float:
    return 3 * m.error / m.size if m is not None and m.size else 0.0


def _span(values: Sequence[float], form: str = ".3g") -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _held(group: Sequence[Difference], form: str) -> str:
    """What was found, what is expected and their ratio: one number each, or the range."""
    wanted = _span([d.wanted for d in group], form)
    if not _equal(group):
        held = _span([d.found for d in group], form)
        return f"{held}, expected {wanted}: {_span([d.ratio for d in group])} times that"
    mean = _mean(group)
    if not 0 < group[0].ratio < math.inf:
        return f"{group[0].found:{form}}, expected {wanted}"
    way = f"{_apart(mean):.3g} times too {'large' if mean > 1 else 'small'}"
    return f"{mean * group[0].wanted:{form}}, expected {wanted}: {way}"


def in_layers(layers: list[int], count: int) -> str:
    """Layers in words, of all there are; three and more in a row as the first and the last."""
    if len(layers) == count > 1:
        return f"all {count} layers"
    words: list[str] = []
    for start, end in runs(layers):
        words += [f"{start}-{end - 1}"] if end - start > 2 else map(str, range(start, end))
    return f"layer{'s' * (len(layers) > 1)} {', '.join(words)}"


def _equation(wanted: WantedSublayer, alpha: str = "alpha") -> str:
    return residual_equation(wanted.norms, alpha if wanted.alpha != 1 else "")


def log(ratio: float) -> float:
    """The logarithm of a ratio, far off where it is 0 or infinite."""
    return math.log(ratio) if 0 < ratio < math.inf else math.copysign(FAR, ratio - 1)
