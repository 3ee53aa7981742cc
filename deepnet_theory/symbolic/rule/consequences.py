"""What a rule implies, as powers of the depth: the quantities that Su argues with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.algebra.monomial import present
from deepnet_theory.symbolic.algebra.symbols import alpha, beta
from deepnet_theory.symbolic.derivation import Consequence
from deepnet_theory.symbolic.laws.parameters import terms
from deepnet_theory.symbolic.rule.balance import Balanced, Kind, Problem
from deepnet_theory.symbolic.rule.shares import Share
from deepnet_theory.symbolic.rule.solved_rule import SolvedRule, rule_of


def consequences(problem: Problem) -> Iterator[Consequence]:
    """Weight, gradient, update, relative update, branch weight and S·r² of every kind."""
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            yield from kind_consequences(problem, balanced, kind)


def kind_consequences(problem: Problem, balanced: Balanced, kind: Kind) -> Iterator[Consequence]:
    """The consequences of one kind of sublayer; sizes in units of the plain network's, η = 1."""
    term = next(t for t in terms(kind.sublayer, problem.law) if t.role is Role.SCALED)
    own = {alpha: kind.alpha, beta: kind.beta}

    def at(expression: object) -> object:
        value = sp.sympify(expression).xreplace(own)
        return present(balanced.at_solution(value))

    update = term.update(problem.degrees)
    rows = (
        ("initial-weight", "size of a scaled matrix at initialisation", beta),
        ("gradient", "size of a scaled matrix's gradient", term.gradient),
        ("update", "size of a scaled matrix's first update, in units of eta", update),
        ("relative-update", "update over weight, in units of eta", update / term.size),
        (
            "branch-weight",
            "r, the branch against the identity path",
            kind.weight.xreplace({v: k for k, v in own.items()}),
        ),
    )
    for name, meaning, expression in rows:
        yield Consequence(name, meaning, at(expression), balanced.part.name, kind.name)
    for power, name in ((1, "aligned-sum"), (2, "self-consistency")):
        yield Consequence(
            name,
            f"S*r^{power}" if power > 1 else "S*r",
            present(balanced.self_consistency(kind, power)),
            balanced.part.name,
            kind.name,
        )


def share_consequences(found: tuple[Share, ...]) -> Iterator[Consequence]:
    """The shares as consequences, one for each kind of parameter besides the scaled matrices."""
    for share in found:
        if share.role is Role.SCALED:
            continue
        shown = sp.Integer(0) if share.total == 0 else present(share.total)
        remark = share.standing
        if share.standing == "dominant":
            remark += f"; the learning-rate multiplier {share.balancing} balances it"
        elif share.total == 0:
            remark += ": its gradient is exactly zero"
        yield Consequence(
            name=f"share-{share.parameter}",
            meaning=f"what all {share.parameter} move the output by, the scaled matrices by 1",
            value=shown,
            part=share.part,
            sublayer=share.sublayer,
            remark=remark,
        )


@dataclass(frozen=True)
class Comparison:
    """The rule and the consequences of every closure that balances; why the others do not."""

    selection: Selection
    default: str  # the closure that is taken where none is asked for
    rules: dict[str, SolvedRule]
    consequences: dict[str, tuple[Consequence, ...]]
    refused: dict[str, str]
    values: tuple[tuple[str, int], ...] = ()  # a depth at which to print numbers

    def __getitem__(self, closure: str) -> tuple[Consequence, ...] | str:
        """The consequences of a closure, or the sentence that refuses it."""
        return self.consequences.get(closure) or self.refused[closure]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; values only where a depth was asked for."""
        depth = dict(self.values)
        rows: list[dict[str, Any]] = []
        for name, rule in self.rules.items():
            entries = [
                {"stack": e.part, "sublayer": e.sublayer, "alpha": e.alpha, "beta": e.beta}
                | (dict(zip(_VALUES, e.at(**depth), strict=True)) if depth else {})
                for e in rule.entries
            ]
            implied: dict[str, Any] = {}
            for c in self.consequences[name]:
                kind = implied.setdefault(c.part, {}).setdefault(c.sublayer, {})
                kind[c.name] = {"value": str(c.value), "meaning": c.meaning}
            rows.append(
                {"closure": name, "rule": entries, "eta": rule.eta, "consequences": implied}
            )
        rows += [{"closure": name, "refused": why} for name, why in self.refused.items()]
        return {
            "schema": "deepnet-theory/closures/1",
            "select": self.selection.to_dict(),
            "default": self.default,
            "closures": rows,
        }

    def to_json(self) -> str:
        """The comparison as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)


_VALUES = ("alpha_value", "beta_value")


def compare_closures(selection: Selection) -> Comparison:
    """The rule and the consequences of every closure side by side; a refusal is its sentence.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where no closure balances.

    Source: Su, §First conclusions, where two alternatives are weighed against the symmetric one.
    """
    rules: dict[str, SolvedRule] = {}
    found: dict[str, tuple[Consequence, ...]] = {}
    refused: dict[str, str] = {}
    for name in closures():
        problem = Problem(replace(selection, closure=name))
        try:
            rules[name] = rule_of(problem)
        except Refusal as refusal:
            refused[name] = str(refusal)
        else:
            found[name] = tuple(consequences(problem))
    if not rules:
        raise Refusal(refused[Problem(selection).closure.name])
    chosen = Problem(replace(selection, closure=None)).closure.name
    return Comparison(selection, chosen, rules, found, refused)
