"""What has no law or no value is refused where it stands, and not carried on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.sizes.consequences import compare_closures
from deepnet_theory.sizes.exponents import Exponents
from deepnet_theory.sizes.growth import growth
from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.optimizer import custom_optimizer
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Matrix, Role, Sublayer
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.monomial import exponent_in, exponents
from deepnet_theory.symbolic.algebra.nodes import Activation, Softmax, coefficient
from deepnet_theory.symbolic.algebra.symbols import N
from deepnet_theory.symbolic.derive import derive, require_stated
from deepnet_theory.symbolic.laws.optimizer import degrees
from deepnet_theory.symbolic.rule.problem import Problem

A, B, u = sp.symbols("A B u", commutative=False)
t = sp.Symbol("t", positive=True)
TWO = Selection(optimizer="sgd", stack="encoder-decoder", layer="attention,ffn")


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        (lambda: depth_expression("1/(N - N)"), InputError, "divides by zero"),
        (lambda: growth("log(1/N - 1)", "N"), InputError, "no real value"),
        (lambda: exponents(1 + N), ValueError, "not a positive monomial"),
        (lambda: exponents(-N), ValueError, "not a positive monomial"),
        (lambda: exponents(0 * N), ValueError, "not a positive monomial"),
        (lambda: exponents(N**N), ValueError, "not a positive monomial"),
        (lambda: exponent_in(sp.exp(N), N), ValueError, "no growth exponent in N"),
        (lambda: coefficient(2 * Activation(u) + 3 * A), ValueError, "different scalars"),
        (lambda: Softmax(t * A).diff(t).diff(t), NotImplementedError, "second differentials"),
        (lambda: degrees(custom_optimizer("-eta*g/(theta - theta)")), Refusal, "not finite"),
        (lambda: derive(TWO), Refusal, "cross"),
        (lambda: compare_closures(TWO), Refusal, "no cross-attention"),
        (
            lambda: Exponents(TWO, own_rule(("encoder", "decoder"), "1", "1")).all(),
            Refusal,
            "without cross-attention",
        ),
    ],
)
def test_what_has_no_law_is_refused(
    asked: Callable[[], object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        asked()


def test_steps_out_of_order_are_no_derivation() -> None:
    derivation = derive(Selection(optimizer="sgd"))
    first, *others = derivation.steps
    named, unheard = f"uses {first.name!r} before", sp.Symbol("unheard")
    for wrong, says in (
        ({"steps": (first, *derivation.steps)}, f"two steps are called {first.name!r}"),
        ({"steps": others}, named),
        ({"steps": (*others, first)}, named),
        (
            {"steps": (replace(first, rhs=first.rhs * unheard), *others)},
            r"holds \['unheard'\] before they are established",
        ),
        ({"conclusion": ("none",)}, r"the conclusion \['none'\] is not among the steps"),
        ({"conclusion": ()}, "is not among the steps"),
    ):
        with pytest.raises(TypeError, match=says):
            replace(derivation, **wrong)  # type: ignore[arg-type]


def test_a_rule_holds_what_its_conclusion_states() -> None:
    """A closure that needs a learning rate of its own states three values; each is asked for."""
    derivation = derive(
        Selection(optimizer="sgd", closure="complete", layer="attention,ffn:swiglu")
    )
    stated = [derivation.step(name) for name in derivation.conclusion]
    rule = derivation.rule
    require_stated(rule, stated)
    for knob, field in (("alpha", "alpha"), ("beta", "beta"), ("kappa", "rate")):
        entries = [replace(entry, **{field: "N**(1/7)"}) for entry in rule.entries]
        with pytest.raises(TypeError, match=f"the rule's {knob} of the encoder is not what"):
            require_stated(replace(rule, entries=tuple(entries)), stated)


def test_a_closure_that_says_nothing_leaves_the_knobs_undetermined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = Closure("empty", (("alpha", "alpha"),))
    monkeypatch.setattr("deepnet_theory.spec.closure.closures", lambda: {"empty": empty})
    with pytest.raises(Refusal, match=r"leaves alpha, beta undetermined in the encoder.*symmetric"):
        _ = Problem(Selection(optimizer="sgd", closure="empty")).balanced


@pytest.mark.parametrize("method", ["probe", "lemma", "moments"])
@pytest.mark.parametrize(
    ("branch", "role"),
    [
        ("phi(x*inner)*out", Role.UNSCALED),
        ("x*inner + phi(x*inner)*out", Role.SCALED),
        ("softmax(x*inner)*out", Role.SCALED),
    ],
)
def test_a_branch_that_no_one_gain_balances_is_refused(
    branch: str, role: Role, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Sublayer("mine", branch, tuple(Matrix(m, role, "d", "d") for m in ("inner", "out")))
    monkeypatch.setattr("deepnet_theory.spec.sublayer.sublayers", lambda: {"mine": mine})
    with pytest.raises(Refusal, match=r"no law for the sublayer 'mine'.*no one beta balances it"):
        derive(Selection(optimizer="sgd", layer="mine", method=method))


@pytest.mark.parametrize(
    ("placement", "most"), [("post-ln", 15), ("pre-ln", 20)], ids=["none refused", "some refused"]
)
def test_a_derivation_solves_nothing_for_sentences_of_refusals(
    monkeypatch: pytest.MonkeyPatch, placement: str, most: int
) -> None:
    solved = []
    rref = sp.Matrix.rref
    monkeypatch.setattr(
        sp.Matrix, "rref", lambda of, *a, **k: solved.append(of) or rref(of, *a, **k)
    )
    repr(derive(Selection(optimizer="adam", placement=placement)))
    assert 0 < len(solved) <= most


def test_a_refusal_looks_for_its_remedy_once_it_is_read() -> None:
    asked = []
    refusal = Refusal("no rule", lambda: asked.append(1) or "take another")
    assert not asked
    for read in (refusal, refusal, pickle.loads(pickle.dumps(refusal)), copy.copy(refusal)):
        assert str(read) == "no rule; take another"
    assert asked == [1]
