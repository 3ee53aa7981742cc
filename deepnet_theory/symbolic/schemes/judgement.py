"""A published scheme judged: under every class of optimizers, with what is one with it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deepnet_theory.spec.optimizer import Optimizer, optimizer
from deepnet_theory.spec.results.prediction import Prediction, Predictions
from deepnet_theory.spec.results.result import Result
from deepnet_theory.spec.scheme import Scheme
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.implications.exponents import exponents_of, rival_rules
from deepnet_theory.symbolic.laws.descent import refuse_unless_descent
from deepnet_theory.symbolic.laws.optimizer import degrees
from deepnet_theory.symbolic.schemes.classes import (
    Derived,
    Source,
    alike,
    derivations_of,
    optimizer_classes,
    same_class,
)
from deepnet_theory.symbolic.schemes.trial import PartTrial, trials


@dataclass(frozen=True)
class Row:
    """A scheme under one class of optimizers: its parts, and what has the same invariants.

    ``classes`` are derived rules, for the scheme's first part; ``alike`` published schemes.
    """

    optimizers: tuple[str, ...]
    parts: tuple[PartTrial, ...]
    classes: tuple[Derived, ...] = ()
    alike: tuple[str, ...] = ()

    @property
    def balanced(self) -> bool:
        """Whether the first order is constant in depth in every part."""
        return all(part.first == 0 for part in self.parts)


@dataclass(frozen=True)
class Judgement(Result):
    """A scheme under the optimizer asked for, and under every class of the built-in ones."""

    scheme: Scheme
    under: str
    row: Row
    others: tuple[Row, ...]
    sources: tuple[Source, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user of the scheme should know, each a sentence."""
        return _warnings(self.row.parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; exponents as texts such as ``"1/2"``, null where there is nothing."""
        return {
            "schema": "deepnet-theory/scheme/1",
            "scheme": {
                "name": self.scheme.name,
                "equation": self.scheme.equation,
                "optimizer": self.scheme.optimizer,
                "source": self.scheme.source,
                "parts": [
                    {"stack": p.name, "alpha": p.alpha, "gains": dict(p.gains)}
                    for p in self.scheme.parts
                ],
                "rates": dict(self.scheme.rates),
                "epsilon": dict(self.scheme.epsilon),
                "weight_decay": dict(self.scheme.weight_decay),
            },
            "optimizer": self.under,
            "judged": _row(self.row),
            "optimizers": [_row(row) for row in self.others],
            "derived": [
                {
                    "placement": s.rule.placement,
                    "optimizer": s.rule.optimizer,
                    "closure": s.rule.closure,
                    "method": s.rule.method,
                    "exact": s.exact,
                }
                for s in self.sources
            ],
            "warnings": list(self.warnings),
        }


def _row(row: Row) -> dict[str, Any]:
    return {
        "optimizers": list(row.optimizers),
        "balanced": row.balanced,
        "parts": [
            {
                "stack": part.part,
                "in": part.depth,
                "first_order": _text(part.first),
                "orders": [_text(order) for order in part.orders],
                "aligned_sum": _text(part.aligned),
                "self_consistency": _text(part.independent),
                "rho": _text(part.relative),
                "parameters": [
                    {"sublayer": m.sublayer, "parameter": m.name, "exponent": _text(m.total)}
                    for m in part.moved
                ],
            }
            for part in row.parts
        ],
        "class": [
            {"placement": d.placement, "optimizer": d.optimizer, "closure": d.closure}
            for d in row.classes
        ],
        "alike": list(row.alike),
    }


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _warnings(parts: tuple[PartTrial, ...]) -> tuple[str, ...]:
    told = []
    for part in parts:
        if part.relative is not None and part.relative > 0:
            told.append(
                f"the relative update rho of the {part.part}'s scaled matrices grows as "
                f"{part.depth}^({part.relative}): at one learning rate training becomes "
                "unstable as the stack grows deeper"
            )
        if part.independent is not None and part.independent > 0:
            told.append(
                f"the {part.part}'s S*r^2 grows as {part.depth}^({part.independent}): the "
                "near-identity assumption fails, and with it the orders told here"
            )
        if part.stream > 0:
            told.append(
                f"the {part.part}'s stream grows as {part.depth}^({part.stream}): the sums told "
                "here take its branches as independent of one another"
            )
    return tuple(told)


def judge(scheme: Scheme, under: Optimizer | None = None) -> Judgement:
    """Judge a scheme under an optimizer, its own by default, and under every built-in class.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where a law is missing, the stream
    explodes, or the update does not go down the gradient.
    """
    own = under or optimizer(scheme.optimizer)
    found = degrees(own)
    refuse_unless_descent(Selection(update=own.update, regime=own.regime), found)
    others = {key: _judged(scheme, names) for key, names in optimizer_classes().items()}
    row = others.get((found.p, found.q)) or Row((own.name,), trials(scheme, own))
    return Judgement(scheme, own.name, row, tuple(others.values()), derivations_of(scheme))


def _judged(scheme: Scheme, names: tuple[str, ...]) -> Row:
    parts = trials(scheme, optimizer(names[0]))
    return Row(names, parts, same_class(parts[0], names[0]), alike(scheme.name, names[0]))


def predictions(scheme: Scheme, selection: Selection) -> Predictions:
    """The judged exponents of a scheme, for the laboratory.

    Their rivals are the rules derived for the same placement, where it has a name. Of two parts
    each has the exponent of its own share in its own depth: what stands between a part and the
    output is of the other depth, and nothing is predicted of a share in that one.
    """
    parts = trials(scheme, selection.the_optimizer)
    if len(parts) > 1:
        own = [Prediction(part.depth, part.part, part.first) for part in parts]
        rest = [Prediction(a.depth, b.part, None) for a in parts for b in parts if a is not b]
        return Predictions((*own, *rest), warnings=_warnings(parts))
    (part,) = parts
    rules = rival_rules(selection) if scheme.named_placement else {}
    rivals = tuple(
        (name, exponents_of(selection, rule)[part.depth, "all"]) for name, rule in rules.items()
    )
    return Predictions(
        (Prediction(part.depth, "all", part.first, rivals),), warnings=_warnings((part,))
    )
