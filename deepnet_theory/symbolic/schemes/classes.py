"""Which rules are one: derived rules and published schemes of the same invariants.

A derived rule is written as a scheme and goes through the same trial; nothing is compared by
name. Two rules are one class under an optimizer where the first order, S·r and ρ have the same
exponents: those are what a change of scales leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import sympy as sp

from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import optimizer, optimizers
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.scheme import Scheme, SchemePart, schemes
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.laws.optimizer import degrees
from deepnet_theory.symbolic.rule.solved_rule import solve_rule
from deepnet_theory.symbolic.schemes.size import indexed
from deepnet_theory.symbolic.schemes.trial import PartTrial, trials

BEST_KNOWN = ("sgd", "adam", "lamb")  # what a class of optimizers is called by


@cache
def optimizer_classes() -> dict[tuple[sp.Rational, sp.Rational], tuple[str, ...]]:
    """The built-in optimizers by the degrees (p, q) of their first update, the best known first."""
    found: dict[tuple[sp.Rational, sp.Rational], tuple[str, ...]] = {}
    for name in sorted(optimizers(), key=lambda name: (name not in BEST_KNOWN, name)):
        of = degrees(optimizer(name))
        found[of.p, of.q] = (*found.get((of.p, of.q), ()), name)
    return found


@dataclass(frozen=True)
class Derived:
    """A rule of the engine, and what it does under its own optimizer."""

    placement: str
    optimizer: str
    closure: str
    method: str
    trial: PartTrial
    scheme: Scheme

    def __str__(self) -> str:
        return f"{self.placement} {self.optimizer} {self.closure}"


@cache
def derived_rules(where: str, name: str, method: str = "probe") -> tuple[Derived, ...]:
    """Every closure's rule of an encoder, for a placement and an optimizer."""
    return tuple(_derived_rules(where, name, method))


def _derived_rules(where: str, name: str, method: str) -> Iterator[Derived]:
    selection = Selection(optimizer=name, placement=where, method=method)
    for how in closures():
        try:
            written = as_scheme(solve_rule(replace(selection, closure=how)), selection)
            (trial,) = trials(written, optimizer(name))
        except Refusal:
            continue
        yield Derived(where, name, how, method, trial, written)


def as_scheme(rule: Rule, selection: Selection) -> Scheme:
    """A rule of a stack of one part, written as a scheme."""
    (part,) = selection.the_stack.parts
    entries = [rule.entry(part.name, s.name) for s in part.layer]
    gains = {
        m.name: entry.beta for s, entry in zip(part.layer, entries, strict=True) for m in s.scaled
    }
    where = selection.the_placement
    return Scheme(
        name=rule.name,
        equation=where.equation,
        final_norm=where.final_norm,
        optimizer=selection.the_optimizer.name,
        parts=(SchemePart(part.name, entries[0].alpha, gains),),
        norm=selection.norm,
        rates={
            **{role.value: rule.eta for role in Role},
            Role.SCALED: f"({rule.eta})*({entries[0].rate})",
        },
    )


def same_class(trial: PartTrial, under: str) -> tuple[Derived, ...]:
    """The derived rules of one optimizer class with the invariants of a trial."""
    return tuple(
        rule
        for where in placements()
        for rule in derived_rules(where, under)
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
        if all(not ratio.free_symbols for ratio in ratios):
            found.append(Source(rule, all(ratio == 1 for ratio in ratios)))
    return tuple(found)


def _candidates(scheme: Scheme) -> Iterator[Derived]:
    """The rules of the scheme's own residual equation, by the routes that solve for orders."""
    for where, placement in placements().items():
        if placement.equation == scheme.equation:
            for method, names in product(("lemma", "probe"), optimizer_classes().values()):
                yield from derived_rules(where, names[0], method)


def _ratios(one: Scheme, other: Scheme) -> Iterator[sp.Expr]:
    """What one scheme's constants are to another's."""
    (a,), (b,) = one.parts, other.parts
    pairs = [(a.alpha, b.alpha), (one.rate_of("scaled"), other.rate_of("scaled"))]
    for sublayer in other.layer_of(b.name):
        pairs += [(a.gain(m.name), b.gain(m.name)) for m in sublayer.matrices]
    for left, right in pairs:
        # decimals are rational in the grammar: a constant to be seen as such
        yield sp.simplify(indexed(left) / indexed(right))


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
