"""A small derivation made by hand, so that rendering is tested apart from the engine."""

from __future__ import annotations

import pytest
import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.nodes import DirectionalDifferential, Label, Softmax
from deepnet_theory.symbolic.derivation import Derivation
from deepnet_theory.symbolic.proof.step import Check, Regime, Relation, Step
from deepnet_theory.symbolic.rule.problem import Problem, rule_of

N, S, r, p = sp.symbols("N S r p", positive=True)
A, H = sp.symbols("A H", commutative=False)


@pytest.fixture
def derivation() -> Derivation:
    nothing = (Check("by hand", lambda step: True),)
    steps = (
        Step(
            "count",
            S,
            2 * N,
            Relation.EQUAL,
            "two sublayers a layer <with α & β>",
            section="Stack",
            establishes=(S,),
            checks=nothing,
        ),
        Step(
            "tangent",
            DirectionalDifferential(Label(Softmax), A, H),
            DirectionalDifferential(Label(Softmax), A, H),
            Relation.EQUAL,
            "the softmax has no law of its own",
            section="Branch",
            checks=nothing,
        ),
        Step(
            "gain",
            r / (1 + r),
            r,
            Relation.ASYMPTOTIC,
            "the branch weight r_l is small",
            section="Branch",
            uses=("count",),
            regime=Regime(r, sp.Integer(0)),
        ),
        Step(
            "bound",
            r * (N + 1) ** p,
            r * (N + 1) ** p,
            Relation.BOUND,
            "a sum of equal terms; 100% of them",
            section="Balance",
            uses=("gain",),
        ),
        Step(
            "size",
            p,
            1 / sp.sqrt(2 * N),
            Relation.ORDER,
            "balance and closure",
            section="Balance",
            uses=("bound",),
            establishes=(p,),
            checks=nothing,
        ),
    )
    selection = Selection(optimizer="lamb")
    return Derivation(
        selection=selection,
        steps=steps,
        given=(N, r, p, A, H),
        conclusion=("size",),
        proved=rule_of(Problem(selection)),
    )
