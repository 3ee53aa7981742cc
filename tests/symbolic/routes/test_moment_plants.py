"""Errors planted in the moment route's source: the derivation itself refutes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.expectation import IndexSum
from deepnet_theory.symbolic.proof import section
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.moments import (
    amplification,
    cross_attention,
    increment,
    moment_route,
    recursion,
    route,
    setting,
    stream,
)

pytestmark = pytest.mark.usefixtures("fresh_routes")

SELECTIONS = {
    "post-ln": Selection(optimizer="sgd", method="moments"),
    "lamb": Selection(optimizer="lamb", method="moments"),
    "pre-ln": Selection(optimizer="sgd", method="moments", placement="pre-ln"),
    "sandwich-ln": Selection(optimizer="sgd", method="moments", placement="sandwich-ln"),
    "two": Selection(optimizer="sgd", method="moments", stack="encoder-decoder"),
    "two-independent": Selection(
        optimizer="sgd", method="moments", stack="encoder-decoder", amplification="independent"
    ),
}
STEPS = [
    (key, step.name)
    for key in ("post-ln", "pre-ln", "two-independent")
    for step in moment_route(SELECTIONS[key]).steps
    if step.section in ("Parameter term", "Recursion", "Update substituted", "Weight of a branch")
    or step.name.startswith(("aligned-", "amplification-", "cross-", "norm-", "two-part"))
    if step.name != "norm-jacobian-rank"
]


def refuted(selection: Selection) -> bool:
    """Whether a derivation falls, be it that its steps give another rule, which none may have."""
    try:
        return derive(selection).verdict is Verdict.REFUTED
    except Refusal:
        return True


@pytest.mark.parametrize("key", SELECTIONS)
def test_without_a_plant_every_step_is_proved(key: str) -> None:
    assert derive(SELECTIONS[key]).verdict is Verdict.PROVED


@pytest.mark.parametrize(("key", "name"), STEPS)
def test_a_wrong_factor_in_a_step_is_refuted(
    key: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later steps take the doubled value; a bound twice as wide is refuted as well."""
    planted = []

    def step(called: str, lhs: Any, right: Any, *arguments: Any, **fields: Any) -> Step:
        if called == name:
            right = IndexSum(right.polynomial * 2) if isinstance(right, IndexSum) else 2 * right
            planted.append(name)
        return Step(called, lhs, right, *arguments, **fields)

    monkeypatch.setattr(section, "Step", step)
    assert refuted(SELECTIONS[key])
    assert planted


def _times(factor: Any) -> Callable[[Any], Any]:
    """A function or property in whose value a factor slipped."""

    def slipped(original: Any) -> Any:
        if isinstance(original, property):
            return property(lambda self: original.fget(self) * factor)
        return lambda *arguments, **named: original(*arguments, **named) * factor

    return slipped


def _without_the_size(update_size: Callable[..., Any]) -> Callable[..., Any]:
    return lambda degree, gradient, size: update_size(degree, gradient, sp.S.One)


def _without_the_gradient(update_size: Callable[..., Any]) -> Callable[..., Any]:
    return lambda degree, gradient, size: update_size(degree, sp.S.One, size)


def _of_one_layer(count: Callable[..., Any]) -> Callable[..., Any]:
    return lambda part: count(part) / part.sublayers_per_layer


def _unread(values: Any) -> Any:
    return property(lambda self: {**values.fget(self), stream.c: sp.S.One})


PLANTS = {
    "q lost": ("lamb", increment, "update_size", _without_the_size),
    "p lost": ("post-ln", increment, "update_size", _without_the_gradient),
    "one matrix for two": ("lamb", increment, "parameter_size", lambda _: setting.v),
    "theta counted twice": ("post-ln", recursion, "parameter_square", _times(2)),
    "branch of the wrong size": ("post-ln", setting.GaussianBranch, "added", _times(2)),
    "sublayer count N for 2N": ("two", amplification, "sublayers", _of_one_layer),
    "3M crossings for M": ("two", amplification, "crossings", _times(3)),
    "A left out": ("two", amplification, "crossings", lambda _: lambda part: sp.S.One),
    "b of the memory doubled": ("two", cross_attention.Crossing, "weight", _times(2)),
    "b of the memory without alpha": (
        "two", cross_attention.Crossing, "weight", _times(setting.alpha),
    ),
    "b of the stream squared": ("sandwich-ln", stream.Stream, "weight", _times(1 / setting.alpha)),
    "what stands before the branch": ("sandwich-ln", stream.Stream, "values", _unread),
    "steps of another update": (
        "post-ln", route, "degrees", lambda degrees: lambda _: degrees(
            SELECTIONS["lamb"].the_optimizer
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_a_slip_in_a_function_is_refuted(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key, where, name, slip = PLANTS[plant]
    original = vars(where)[name]
    monkeypatch.setattr(where, name, slip(original))
    assert refuted(SELECTIONS[key])
