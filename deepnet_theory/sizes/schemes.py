r"""Published schemes, judged under every class of optimizers.

A scheme has a gain for every matrix, and constants that may depend on the layer's index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.measurement import Prediction, Predictions
from deepnet_theory.definitions.optimizer import Optimizer, optimizer, optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.rule import RuleEntry
from deepnet_theory.definitions.scheme import Scheme, SchemePart, gain_of
from deepnet_theory.definitions.selection import Selection, stack
from deepnet_theory.definitions.sublayer import Role, norm
from deepnet_theory.sizes import update
from deepnet_theory.sizes.exponents import Exponents, rival_rules
from deepnet_theory.sizes.laws import law
from deepnet_theory.sizes.layers import Knobs, Layers, positive, stacked
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.norm_epsilon import falling, in_words

BEST_KNOWN = ("sgd", "adam", "lamb")  # what a class of optimizers is called by


# ---- one scheme under one optimizer ----


def trials(scheme: Scheme, optimizer: Optimizer) -> tuple[Layers, ...]:
    """Every part of a scheme under an optimizer.

    Raises :class:`Refusal` where the scheme changes in time, its
    stream explodes, or where its equation or the update has no law.
    """
    if scheme.schedule:
        raise Refusal(
            f"the scheme {scheme.name!r} multiplies its branch by {scheme.schedule} in the step t "
            "of training, and the law of a residual equation that changes in time is missing"
        )
    depths = {part.name: part.depth for part in stack(scheme.stack).parts}
    degrees = update.law(optimizer)
    return tuple(_layers(scheme, part, depths[part.name], degrees) for part in scheme.parts)


def _layers(scheme: Scheme, part: SchemePart, depth: str, degrees: update.Update) -> Layers:
    rates = {Role(role): text for role, text in scheme.rates.items()}
    given = [
        (
            law(scheme.placement, s, norm(scheme.norm)),
            Knobs(part.alpha, {m.name: part.gain(m.name) for m in s.matrices}, rates),
        )
        for s in dict.fromkeys(scheme.layer_of(part.name))
    ]
    embedding = positive(part.embedding, depth)
    layers = stacked(
        part.name, depth, given, degrees, scheme.placement, scheme.uses, embedding=embedding
    )
    felt = any(branch.law.added.exponent("stream") for branch in layers.branches)
    grown = layers.weights(2, layers.embedding) if felt and not layers.normalised else None
    if grown is not None and grown > 0:
        raise Refusal(
            f"the stream of the scheme {scheme.name!r} explodes: its equation "
            f"{scheme.equation!r} has no norm, and S*r^2 grows as {depth}^({grown})"
        )
    return layers


@cache
def optimizer_classes() -> dict[tuple[Fraction, Fraction], tuple[str, ...]]:
    """The built-in optimizers by the degrees (p, q) of their first update, the best known first."""
    classes: dict[tuple[Fraction, Fraction], tuple[str, ...]] = {}
    for name in sorted(optimizers(), key=lambda name: (name not in BEST_KNOWN, name)):
        degrees = update.law(optimizer(name))
        classes[degrees.p, degrees.q] = (*classes.get((degrees.p, degrees.q), ()), name)
    return classes


# ---- the judgement ----


@dataclass(frozen=True)
class Row:
    """A scheme under one class of optimizers: what every part does."""

    optimizers: tuple[str, ...]
    parts: tuple[Layers, ...]

    @property
    def balanced(self) -> bool:
        return all(part.first == 0 for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data of what the scheme does; exponents as texts, null for none."""
        return {
            "optimizers": list(self.optimizers),
            "balanced": self.balanced,
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
                for part in self.parts
            ],
        }


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True)
class Judgement(Displayed):
    """A scheme under the optimizer asked for, and under every class of the built-in ones."""

    scheme: Scheme
    under: str
    row: Row
    others: tuple[Row, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user of the scheme should know, each a sentence."""
        epsilon = in_words(self.falling)[:-1]
        return (*_warnings(self.row.parts), *([epsilon] if epsilon else []))

    @property
    def falling(self) -> tuple[RuleEntry, ...]:
        """The norms that divide what falls with the depth."""
        return tuple(falling_in(self.scheme))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; exponents as texts such as ``"1/2"``, null where there is nothing."""
        scheme = self.scheme
        published = {
            key: getattr(scheme, key) for key in ("name", "equation", "optimizer", "source")
        }
        published["parts"] = [
            {"stack": p.name, "alpha": p.alpha, "gains": dict(p.gains)} for p in scheme.parts
        ]
        for multiplier in ("rates", "epsilon", "weight_decay"):
            published[multiplier] = dict(getattr(scheme, multiplier))
        return {
            "schema": "deepnet-theory/scheme/1",
            "scheme": published,
            "optimizer": self.under,
            "judged": self.row.to_dict(),
            "optimizers": [row.to_dict() for row in self.others],
            "warnings": list(self.warnings),
            "norm_epsilon": [
                {"stack": e.part, "sublayer": e.sublayer, "norm": where, "epsilon": by}
                for e in self.falling
                for where, by in e.norm_epsilon
            ],
        }


def _warnings(parts: tuple[Layers, ...]) -> Iterator[str]:
    for part in parts:
        if part.relative is not None and part.relative > 0:
            yield (
                f"the relative update rho of the {part.part}'s scaled matrices grows as "
                f"{part.depth}^({part.relative}): at one learning rate training becomes "
                "unstable as the stack grows deeper"
            )
        yield from part.far_from_identity()
        if part.grown > 0:
            yield (
                f"the {part.part}'s stream grows as {part.depth}^({part.grown}): these sums take "
                "its branches as independent of one another"
            )


def judge(scheme: Scheme, under: Optimizer | None = None) -> Judgement:
    """Judge a scheme under an optimizer, its own by default, and under every built-in class.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where a law is missing, the stream
    explodes, or the update does not go down the gradient.
    """
    by = under or optimizer(scheme.optimizer)
    degrees = update.descending(by)
    rows = {
        key: Row(names, trials(scheme, optimizer(names[0])))
        for key, names in optimizer_classes().items()
    }
    row = rows.get((degrees.p, degrees.q)) or Row((by.name,), trials(scheme, by))
    return Judgement(scheme, by.name, row, tuple(rows.values()))


def predictions(scheme: Scheme, selection: Selection) -> Predictions:
    """The judged exponents of a scheme, for the laboratory.

    Their rivals are the rules derived for the same placement, where it has a name. Of two parts
    each has the exponent of its own share in its own depth: what stands between a part and the
    output is of the other depth, and nothing is predicted of a share in that one.
    """
    parts = trials(scheme, selection.the_optimizer)
    if len(parts) > 1:
        rows = [Prediction(part.depth, part.part, part.first) for part in parts]
        rows += [Prediction(a.depth, b.part, None) for a in parts for b in parts if a is not b]
    else:
        (part,) = parts
        rules = rival_rules(selection) if scheme.named_placement else {}
        rivals = (
            (name, Exponents(selection, rule).all()[part.depth, "all"])
            for name, rule in rules.items()
        )
        rows = [Prediction(part.depth, "all", part.first, tuple(rivals))]
    return Predictions(tuple(rows), warnings=tuple(_warnings(parts)))


def falling_in(scheme: Scheme) -> Iterator[RuleEntry]:
    """Every part with a norm whose ε must fall with the depth, with a gain for each matrix."""
    depth_of, stream = {p.name: p.depth for p in stack(scheme.stack).parts}, {"stream": Monomial()}
    for part in scheme.parts:
        found: dict[tuple[str, str], None] = {}
        for sublayer in dict.fromkeys(scheme.layer_of(part.name)):
            knobs = {m.name: gain_of(part, m.name) for m in sublayer.matrices}
            knobs["alpha"], placed = part.alpha, law(scheme.placement, sublayer)
            found |= dict.fromkeys(falling(placed, knobs, stream, depth_of[part.name]))
        if found:
            yield RuleEntry(part.name, "*", part.alpha, "1", norm_epsilon=tuple(found))
