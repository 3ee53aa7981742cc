"""Errors planted in the source of the lemma route are refuted by the derivation itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive

SELECTIONS = {
    "sgd": {"optimizer": "sgd"},
    "adam": {"optimizer": "adam"},
    "lamb": {"optimizer": "lamb"},
    "swiglu": {"optimizer": "sgd", "layer": "attention,ffn:swiglu"},
    "pre-ln": {"optimizer": "sgd", "placement": "pre-ln"},
    "sandwich": {"optimizer": "sgd", "placement": "sandwich-ln"},
    "falling": {"update": "-eta*g/norm(g)**(3/2)", "placement": "pre-ln"},
    "two parts": {"optimizer": "sgd", "stack": "encoder-decoder"},
    "independent": {
        "optimizer": "sgd",
        "stack": "encoder-decoder",
        "amplification": "independent",
    },
    "pre-ln, two parts": {"optimizer": "sgd", "placement": "pre-ln", "stack": "encoder-decoder"},
}
# by module: the selection, what stands in the source, and what is planted there
PLANTS = {
    "routes.lemma.scalar": (
        ("sgd", "sp.sqrt(alpha**2 + weight**2)\n", "sp.sqrt(alpha**2 - weight**2)\n"),
        ("sgd", "alpha**2 + weight**2,", "alpha**2 + 2 * weight**2,"),
        ("sgd", "return sp.Add(*both) / 2", "return sp.Add(*both)"),
        ("sgd", "weight / alpha,", "alpha / weight,"),
        ("sgd", "sp.factor(sp.diff(function, variable))", "sp.factor(function)"),
    ),
    "routes.lemma.jacobians": (
        ("sgd", "jacobian = (1 + r)", "jacobian = (1 + 2 * r)"),
        ("sgd", "opposite = (1 - r)", "opposite = (1 + r)"),
        ("sgd", "sp.binomial(K, j) / 2**K", "sp.binomial(K, j) / (2 * K)"),
        ("sgd", "sp.Integer(1),", "sp.Integer(2),"),
    ),
    "routes.lemma.telescoping": (
        ("sgd", "total = sp.Sum(D(i) * T(i)", "total = sp.Sum(2 * D(i) * T(i)"),
        ("sgd", "(l, i + 1, S)) * D", "(l, i, S)) * D"),
        ("sgd", "sp.Abs(jacobian_) *", ""),
    ),
    "routes.lemma.placement": (
        ("sgd", "self.branch**2 + self.change**2", "self.change**2"),
        ("sgd", "lambda of: of / of.length", "lambda of: of / of.length**2"),
        ("sgd", "epsilon * signal.path", "2 * epsilon * signal.path"),
        ("pre-ln", "epsilon * signal.path", "epsilon * P * signal.path"),
        ("sandwich", "(output.branch / output.path)", "(output.path / P)"),
        ("sgd", "sp.factor(response).as_leading_term(P)", "sp.factor(response)"),
        ("sgd", "sp.factor(response), leading)", "sp.factor(response), 2 * leading)"),
        ("pre-ln", "1 + S * r**2,", "1 + S * r,"),
        ("pre-ln", "1 / size.rhs.subs(S, i),", "1 / size.rhs,"),
        ("pre-ln", "sp.Sum(D(i) * T(i), (i, 1, S)),", "sp.Sum(D(i) * T(i), (i, 2, S)),"),
    ),
    "routes.lemma.increment": (
        ("sgd", "(weight / gain) ** 2 for", "(weight / gain) for"),
        ("swiglu", "(weight / gain) ** 2 for gain in gains",
         "(weight / gain) ** 2 for gain in gains[:2]"),
        ("swiglu", "    weight = sp.Mul(*gains)\n", "    weight = sp.Add(*gains)\n"),
        ("adam", "self.found.leading.xreplace",
         "alpha ** sp.Rational(1, 16) * self.found.leading.xreplace"),
        ("sgd", "** (1 + self.degrees.p)", "** self.degrees.p"),
        ("lamb", " * size**self.degrees.q", ""),
        ("lamb", "size = sp.sqrt(sp.Add(*(gain**2 for gain in of)))\n        return",
         "size = sp.Add(*(gain**2 for gain in of))\n        return"),
        ("sgd", "exact * passage.size", "2 * exact * passage.size"),
        ("falling", "exact * passage.size", "exact / passage.size * (1 + i)"),
        ("sgd", "eta * length**p * size**q * (", "eta * length**q * size**p * ("),
        ("lamb", "eta * length**p * size**q,", "eta * length**p,"),
        ("sgd", "eta * delta**p", "eta * delta / 2"),
        ("sgd", "        S * moved.rhs,", "        S**2 * moved.rhs,"),
        ("swiglu", "beta ** len(sublayer.scaled)", "beta ** 2"),
        ("sgd", "dict.fromkeys(of, beta)", "dict.fromkeys(of[:1], beta)"),
        ("sgd", "sp.powsimp(share), force=True)", "sp.powsimp(share / 2), force=True)"),
    ),
    "routes.lemma.route": (
        ("lamb", "degrees(selection.the_optimizer))",
         "degrees(type(selection)(optimizer='sgd').the_optimizer))"),
        ("swiglu", "law, gains(len(s.scaled))", "law, gains(counts[0])"),
        ("swiglu", "moved[len(s.scaled)]", "moved[counts[0]]"),
    ),
    "routes.lemma.cross": (
        ("two parts", "(still) * _y", "(still) * _m"),
        ("two parts", "sp.diff(output, _m),", "sp.diff(output, _y),"),
        ("two parts", "exact.rhs,\n        found.weight",
         "exact.rhs,\n        2 * found.weight"),
        ("pre-ln, two parts", "_c,\n            found.weight",
         "_c,\n            1 / found.weight"),
        ("two parts", "crossings(decoder) * _c * _X", "_c * _X"),
        ("two parts", "crossings(decoder) **", "sublayers(decoder) **"),
        ("independent", "power = 1 if aligned else 2", "power = 1"),
    ),
    "routes.two_parts": (
        ("two parts", "return part.sublayers_per_layer *", "return"),
        ("two parts", "return part.crossings *", "return 3 *"),
        ("two parts", "        if sublayer.reads_memory:\n    ", ""),
    ),
}  # fmt: skip
# with these the placement is no longer one that the route has a law for
REFUSED = {
    "routes.lemma.placement": (
        ("sgd", "self.branch * factor", "self.branch"),
        ("sgd", "self.branch + other.branch", "self.branch"),
        ("sgd", "P * signal.path, epsilon", "P**2 * signal.path, epsilon"),
        ("sgd", "Directions(placement, output, weight,",
         "Directions(placement, output, weight**2,"),
        ("sandwich", "self.branch + other.branch", "self.branch"),
    ),
}  # fmt: skip


def listed(plants: dict[str, tuple[tuple[str, str, str], ...]]) -> list[tuple[str, str, str, str]]:
    return [(name, module, *text) for module, rows in plants.items() for name, *text in rows]


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_route_as_it_stands_is_proved(name: str) -> None:
    assert derive(Selection(method="lemma", **SELECTIONS[name])).verdict is Verdict.PROVED


@pytest.mark.parametrize(("name", "module", "right", "wrong"), listed(PLANTS))
def test_a_planted_error_is_refuted(
    plant: Callable[[str, str, str], None], name: str, module: str, right: str, wrong: str
) -> None:
    plant(module, right, wrong)
    # a wrong increment may leave no balance at all: that is a refusal too
    with suppress(Refusal, ValueError):
        derivation = derive(Selection(method="lemma", **SELECTIONS[name]))
        assert derivation.verdict is Verdict.REFUTED


@pytest.mark.parametrize(("name", "module", "right", "wrong"), listed(REFUSED))
def test_a_planted_error_leaves_no_law(
    plant: Callable[[str, str, str], None], name: str, module: str, right: str, wrong: str
) -> None:
    plant(module, right, wrong)
    with pytest.raises(Refusal, match="the lemma route has no law"):
        derive(Selection(method="lemma", **SELECTIONS[name]))


def test_a_miscounted_layer_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """3M crossings for M: the sublayers that read the memory are listed, not counted."""
    monkeypatch.setattr(Part, "crossings", property(lambda part: len(part.layer)))
    assert derive(Selection(method="lemma", **SELECTIONS["two parts"])).verdict is Verdict.REFUTED
