r"""A table in width with its proof: the steps that it rests on, and what it says beside them.

The steps are those of :mod:`~deepnet_theory.symbolic.laws.width`, and of a table in both dimensions
those of its rule in depth. Every number of the table must be the one that the steps end in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deepnet_theory.sizes.equivalence import in_weights
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.sizes.width import (
    FORWARD,
    TIED,
    Scale,
    WidthRow,
    WidthTable,
)
from deepnet_theory.spec.results.measurement import Result
from deepnet_theory.spec.sublayer import Role
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derivation import SCHEMA, Chain, Derivation, Meaning, symbols_of
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.laws.width import SYMBOLS, WidthStep, groups, prove, size, solved
from deepnet_theory.symbolic.proof.step import Step

# ---- what the steps end in, beside what the table says ----


def _disagreements(
    table: WidthTable, steps: Iterable[Step], depth: Derivation | None
) -> Iterator[str]:
    """Every number of the table that is not the steps', with both values."""
    found = solved(step for step in steps if isinstance(step, WidthStep))
    values = {str(symbol): size(value) for symbol, value in found.items()}
    owner = {id(row): group for group in groups(table) for row in group.rows}
    vector = next(group for group in owner.values() if group.name == "vector")
    in_depth = _in_depth(table, depth) if depth else None
    for row in (*table.rows, *table.blocks):
        place, times = row.place, in_depth(row) if in_depth else {}
        if place.kind is Role.KEY_BIAS:
            continue
        group = owner.get(id(row), vector)  # a tied head is stepped as the embedding
        own = {what: values.get(str(group(what))) for what in SYMBOLS}
        if row.role == TIED:
            own["multiplier"] = values["c_tied"]
            free = table.form == FORWARD or own["multiplier"] == ONE
            one_rate = values.get("eta_vector") == values.get("eta_head") is not None
            kept = () if not free else own if one_rate else ("multiplier", "init")
            own = {what: value if what in kept else None for what, value in own.items()}
        for what, value in own.items():
            if what in ("decay", "coupled_decay") and not place.is_matrix:
                value = None
            if value is not None:
                value *= times.get(what, ONE)
            if (said := getattr(row, what)) != value:
                yield f"{what} of {row.role}: {value} by the steps, {said} by the table"


def _in_depth(table: WidthTable, depth: Derivation) -> Callable[[WidthRow], dict[str, Monomial]]:
    """What the rule in depth multiplies the numbers of a row by."""
    parameters, eta = depth.parameters, parse(depth.rule.eta)
    if table.form != FORWARD:
        _, _, parameters = in_weights(table.selection, depth.rule, parameters)
    known = {(p.part, p.sublayer, p.name): p for p in parameters}

    def factors(row: WidthRow) -> dict[str, Monomial]:
        p = known.get((row.place.part, row.place.sublayer, row.place.parameter))
        if p is None:
            return {"rate": eta, "decay": ONE / eta, "coupled_decay": ONE / eta}
        decay = parse(p.weight_decay) if p.weight_decay != "0" else ONE
        return {"init": parse(p.gain) if row.init is not None else ONE,
                "rate": eta * parse(p.rate), "epsilon": parse(p.epsilon),
                "decay": decay, "coupled_decay": decay}  # fmt: skip

    return factors


@dataclass(frozen=True)
class WidthDerivation(Chain, Result):
    """A table in width with the steps that it rests on, and with the depth's where it has them.

    ``scale`` says where numbers are printed, and which model they are multiples of.
    """

    table: WidthTable
    scale: Scale | None = None

    @cached_property
    def depth(self) -> Derivation | None:
        """The derivation in depth, of a table in both dimensions."""
        return derive(self.table.selection) if self.table.across != "width" else None

    @cached_property
    def steps(self) -> tuple[Step, ...]:  # type: ignore[override]
        return (*(self.depth.steps if self.depth else ()), *prove(self.table))

    @cached_property
    def symbols(self) -> dict[str, Meaning]:
        return symbols_of(step for step in self.steps if isinstance(step, WidthStep))

    @cached_property
    def disagreements(self) -> tuple[str, ...]:
        """Where the table says another thing than the steps, both values in a sentence."""
        return tuple(_disagreements(self.table, self.steps, self.depth))

    @cached_property
    def verdict(self) -> Verdict:
        """PROVED (given the assumptions) where all steps hold and the table says the same."""
        refuted = self.disagreements or Verdict.REFUTED in self.verdicts.values()
        if self.depth is not None and self.depth.verdict is Verdict.REFUTED:
            return Verdict.REFUTED
        return Verdict.REFUTED if refuted else Verdict.PROVED

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code

    @property
    def shown(self) -> str:
        """How much has been shown, in words."""
        if self.disagreements:
            return "; ".join(self.disagreements)
        if self.verdict is Verdict.REFUTED:
            return "a step fails its check"
        return (
            "every step follows from those it uses, given its assumptions, and every size of an "
            "update is what explicit matrices of several widths have"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        table, depth = self.table, self.depth
        return {
            "schema": SCHEMA,
            "select": table.selection.to_dict(),
            "across": table.across,
            "alignment": table.alignment,
            "form": table.form,
            "rule": [entry.to_dict() for entry in depth.rule.entries] if depth else [],
            "eta": depth.rule.eta if depth else "1",
            "closure": table.closure or None,
            "roles": [row.texts() for row in table.rows],
            "blocks": [row.texts() for row in table.blocks],
            "forced": list(table.forced),
            "conventions": list(table.conventions),
            "floors": table.floors,
            **self.steps_to_dict(),
            "disagreements": list(self.disagreements),
            "verdict": self.verdict.value,
        }
