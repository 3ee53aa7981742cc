"""A published scheme judged under every class of optimizers, with the rules that are one with it.

A derived rule is written as a scheme and goes through the same trial; nothing is compared by name.
Two rules are one class under an optimizer where the first order, S·r and ρ have the same
exponents: those are what a change of scales leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from deepnet_theory.sizes import update
from deepnet_theory.sizes.exponents import Exponents, rival_rules
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.sizes.norm_epsilon import Sinking, in_words, sinking_in
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.schemes import PartTrial, trials
from deepnet_theory.sizes.table import texts
from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import Optimizer, optimizer, optimizers
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.results.measurement import Prediction, Predictions, Result
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.scheme import Scheme, SchemePart, measured, schemes
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role

BEST_KNOWN = ("sgd", "adam", "lamb")  # what a class of optimizers is called by


@cache
def optimizer_classes() -> dict[tuple[Fraction, Fraction], tuple[str, ...]]:
    """The built-in optimizers by the degrees (p, q) of their first update, the best known first."""
    found: dict[tuple[Fraction, Fraction], tuple[str, ...]] = {}
    for name in sorted(optimizers(), key=lambda name: (name not in BEST_KNOWN, name)):
        of = update.law(optimizer(name))
        found[of.p, of.q] = (*found.get((of.p, of.q), ()), name)
    return found


# ---- derived rules as schemes ----


@dataclass(frozen=True)
class Derived:
    """A derived rule, and what it does under its own optimizer."""

    placement: str
    optimizer: str
    closure: str
    method: str
    trial: PartTrial
    scheme: Scheme

    def __str__(self) -> str:
        return f"{self.placement} {self.optimizer} {self.closure}"


@cache
def derived_rules(
    where: str, name: str, method: str = "probe", uses: str = "1"
) -> tuple[Derived, ...]:
    selection = Selection(optimizer=name, placement=where, method=method, uses=uses)
    found = []
    for how in closures():
        try:
            written = as_scheme(texts(solve_rule(replace(selection, closure=how))), selection)
            (trial,) = trials(written, optimizer(name))
        except Refusal:
            continue
        found.append(Derived(where, name, how, method, trial, written))
    return tuple(found)


def as_scheme(rule: Rule, selection: Selection) -> Scheme:
    """A rule of a stack of one part, written as a scheme; what is learnt in it stands still."""
    (part,) = selection.the_stack.parts
    entries = [rule.entry(part.name, s.name) for s in part.layer]
    gains = {
        m.name: entry.beta for s, entry in zip(part.layer, entries, strict=True) for m in s.scaled
    }
    where = selection.the_placement
    return Scheme(
        name=rule.name,
        equation=where.equation.replace("learnt", ""),
        output=where.output,
        final_norm=where.final_norm,
        optimizer=selection.the_optimizer.name,
        parts=(SchemePart(part.name, entries[0].alpha, gains),),
        norm=selection.norm,
        uses=part.uses,
        rates={
            **{role.value: rule.eta for role in Role},
            Role.SCALED: f"({rule.eta})*({entries[0].rate})",
        },
    )


def same_class(trial: PartTrial, under: str, uses: str = "1") -> tuple[Derived, ...]:
    """The derived rules of one optimizer class with the invariants of a trial."""
    return tuple(
        rule
        for where, placement in placements().items()
        if not placement.learnt  # whose rules are those of the same equation without
        for rule in derived_rules(where, under, uses=uses)
        if rule.trial.invariants == trial.invariants
    )


@dataclass(frozen=True)
class Source:
    """A selection whose derived rule is a scheme, exactly or up to constants."""

    rule: Derived
    exact: bool


def derivations_of(scheme: Scheme) -> tuple[Source, ...]:
    """The selections that give a scheme of one part: the same α and gains in every matrix."""
    if len(scheme.parts) > 1 or not scheme.one_gain or scheme.streams > 1 or scheme.schedule:
        return ()
    found = []
    for rule in _candidates(scheme):
        ratios = list(_ratios(rule.scheme, scheme))
        if all(ratio is not None and not ratio.symbols for ratio in ratios):
            found.append(Source(rule, all(ratio == ONE for ratio in ratios)))
    return tuple(found)


def _candidates(scheme: Scheme) -> Iterator[Derived]:
    for where, placement in placements().items():
        if placement.equation == scheme.equation:
            for method, names in product(("lemma", "probe"), optimizer_classes().values()):
                yield from derived_rules(where, names[0], method, scheme.uses)


def _ratios(one: Scheme, other: Scheme) -> Iterator[Monomial | None]:
    """What one scheme's constants are to another's; None where one is no monomial."""
    (a,), (b,) = one.parts, other.parts
    pairs = [(a.alpha, b.alpha), (one.rate_of("scaled"), other.rate_of("scaled"))]
    for sublayer in other.layer_of(b.name):
        pairs += [(a.gain(m.name), b.gain(m.name)) for m in sublayer.matrices]
    for left, right in pairs:
        try:
            yield parse(left) / parse(right)
        except ValueError:
            yield None


@cache
def published_trials(under: str) -> dict[str, tuple[PartTrial, ...]]:
    """What every published scheme that has a law does under an optimizer."""
    found = {}
    for name, scheme in schemes().items():
        try:
            found[name] = trials(scheme, optimizer(under))
        except Refusal:
            continue
    return found


def alike(name: str, under: str) -> tuple[str, ...]:
    """The other published schemes with the same invariants under an optimizer, part by part."""
    every = published_trials(under)
    if name not in every:
        return ()
    own = tuple(t.invariants for t in every[name])
    return tuple(
        other
        for other, found in every.items()
        if other != name and tuple(t.invariants for t in found) == own
    )


# ---- the judgement ----


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
        epsilon = in_words(self.sinking, {})[:-1]
        return (*_warnings(self.row.parts), *([epsilon] if epsilon else []))

    @property
    def sinking(self) -> tuple[Sinking, ...]:
        """The norms that divide what falls with the depth, where their ε is overtaken."""
        return tuple(sinking_in(self.scheme))

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
            "judged": _row(self.scheme.name, self.row),
            "optimizers": [_row(self.scheme.name, row) for row in self.others],
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
            "norm_epsilon": [norm.to_dict() for norm in self.sinking],
        }


def _row(scheme: str, row: Row) -> dict[str, Any]:
    return {
        "optimizers": list(row.optimizers),
        "balanced": row.balanced,
        "measured": [asdict(one) for one in measured(scheme, row.optimizers)[1]],
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
    found = []
    for part in parts:
        if part.relative is not None and part.relative > 0:
            found.append(
                f"the relative update rho of the {part.part}'s scaled matrices grows as "
                f"{part.depth}^({part.relative}): at one learning rate training becomes "
                "unstable as the stack grows deeper"
            )
        if part.independent is not None and part.independent > 0:
            found.append(
                f"the {part.part}'s S*r^2 grows as {part.depth}^({part.independent}): the "
                "near-identity assumption fails, and with it these orders"
            )
        if part.stream > 0:
            found.append(
                f"the {part.part}'s stream grows as {part.depth}^({part.stream}): these sums take "
                "its branches as independent of one another"
            )
    return tuple(found)


def judge(scheme: Scheme, under: Optimizer | None = None) -> Judgement:
    """Judge a scheme under an optimizer, its own by default, and under every built-in class.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where a law is missing, the stream
    explodes, or the update does not go down the gradient.
    """
    own = under or optimizer(scheme.optimizer)
    found = update.descending(own)
    others = {key: _judged(scheme, names) for key, names in optimizer_classes().items()}
    row = others.get((found.p, found.q)) or Row((own.name,), trials(scheme, own))
    return Judgement(scheme, own.name, row, tuple(others.values()), derivations_of(scheme))


def _judged(scheme: Scheme, names: tuple[str, ...]) -> Row:
    parts = trials(scheme, optimizer(names[0]))
    return Row(
        names, parts, same_class(parts[0], names[0], scheme.uses), alike(scheme.name, names[0])
    )


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
        (name, Exponents(selection, rule).all()[part.depth, "all"]) for name, rule in rules.items()
    )
    return Predictions(
        (Prediction(part.depth, "all", part.first, rivals),), warnings=_warnings((part,))
    )
