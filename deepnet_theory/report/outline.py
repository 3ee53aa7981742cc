"""The order in which a derivation is told, the same in every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepnet_theory.spec.rule import RuleEntry
    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.symbolic.proof.step import Step


@dataclass(frozen=True)
class Section:
    """A heading and its steps, each with its equation number."""

    title: str
    steps: tuple[tuple[int, Step], ...]


def sections(derivation: Derivation) -> tuple[Section, ...]:
    """The steps by section, in order of first appearance; numbers run through."""
    found: dict[str, list[tuple[int, Step]]] = {}
    for number, step in enumerate(derivation.steps, start=1):
        found.setdefault(step.section or "Derivation", []).append((number, step))
    return tuple(Section(title, tuple(steps)) for title, steps in found.items())


def numbers(derivation: Derivation) -> dict[str, int]:
    """The equation number of every step, by name."""
    return {step.name: n for n, step in enumerate(derivation.steps, start=1)}


def title(selection: Selection) -> str:
    """What the derivation is for, in words."""
    optimizer = selection.the_optimizer.name if selection.optimizer else selection.update
    return f"{selection.placement} {selection.stack} under {optimizer}"


def setting(derivation: Derivation) -> tuple[tuple[str, str], ...]:
    """The setting, as label and value."""
    selection = derivation.selection
    layers = "; ".join(
        f"{part.depth} layers of {', '.join(s.name for s in part.layer)}"
        for part in selection.the_stack.parts
    )
    rows = [
        ("update", selection.the_optimizer.update),
        ("sublayer", selection.the_placement.equation),
        ("stack", layers),
        ("norm", selection.norm),
        ("method", selection.method),
    ]
    return tuple(rows)


def depth_words(depth: Mapping[str, int]) -> str:
    """A depth in words: ``N = 8, M = 6``."""
    return ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())


def support(derivation: Derivation, step: Step) -> str:
    """What a step rests on: equation numbers and assumptions, in words."""
    number = numbers(derivation)
    parts = []
    if step.uses:
        parts.append("from " + ", ".join(f"({number[name]})" for name in step.uses))
    if step.assumptions:
        parts.append("assuming " + ", ".join(step.assumptions))
    if step.regime is not None:
        parts.append(f"as {step.regime}")
    return "; ".join(parts)


def owner(entry: RuleEntry) -> str:
    """Whose entry of the rule it is: the part, and the sublayer where kinds differ."""
    return entry.part if entry.sublayer == "*" else f"{entry.part}, {entry.sublayer}"


def conclusion(derivation: Derivation) -> str:
    """How much has been shown, in one sentence."""
    verdicts = derivation.verdicts.values()
    holding = sum(v.value == "PROVED" for v in verdicts)
    given = len(derivation.assumptions)
    relation = derivation.relation.name
    return (
        f"{derivation.verdict.value}: {holding} of {len(derivation.steps)} steps check"
        + (f", given {given} assumption{'s' * (given != 1)}" if given else "")
        + f"; the rule holds as {relation} ({RELATION_MEANING[relation]})."
    )


RELATION_MEANING = {
    "EQUAL": "exactly",
    "ASYMPTOTIC": "the ratio tends to 1",
    "AT_MOST": "an upper bound",
    "ORDER": "up to a constant factor",
    "BOUND": "an upper bound up to a constant factor",
}
