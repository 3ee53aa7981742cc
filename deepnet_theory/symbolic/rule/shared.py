r"""Shared layers: one matrix in n sublayers is stepped by the sum of its uses.

.. math:: \frac{d}{dG}(1 + rG)^n = n r (1 + rG)^{n-1} \sim n r

Near the identity all uses read one stream and one gradient, so that what the output answers to the
matrix, and the gradient, are n times those of one use. An update of degree p is n^p times as large,
and every use makes the output feel it: n sublayers move by n^{1+p} increments, S of them by S n^p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy as sp

from deepnet_theory.sizes.update import Update
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import depth_expression, eta, r
from deepnet_theory.symbolic.laws.explicit import step_length
from deepnet_theory.symbolic.proof.step import (
    LIMIT,
    Check,
    Regime,
    Section,
    Step,
    defines,
    near,
    number,
)
from deepnet_theory.symbolic.proof.witness import of_uses

SECTION = Section("Shared layers")
n, G = sp.symbols("n_u G", positive=True)


def shared_steps(
    part: Part, placed: Callable[[Sublayer], Placement], optimizer: Optimizer, of: Update
) -> Iterator[Step]:
    """What the uses of one matrix do together; no step where each layer has its own."""
    if part.uses == "1":
        return
    g, theta = sp.symbols("g theta", positive=True)
    update = sp.Function("u")

    def on_matrices(step: Step) -> bool:
        """Two uses of an explicit sublayer beside one, in every parameter and in the branch."""
        power = sp.degree(step.rhs, n)
        return all(set(of_uses(placed(s), s).values()) == {power} for s in part.layer)

    yield SECTION.equal(
        f"uses-{part.name}",
        n,
        depth_expression(part.uses),
        f"every layer of the {part.name} stands in as many places",
        establishes=(n,),
        checks=(defines("as asked for", lambda: depth_expression(part.uses)),),
    )
    yield SECTION.asymptotic(
        f"shared-response-{part.name}",
        sp.diff((1 + r * G) ** n, G),
        n * r,
        "a product of n_u equal maps, differentiated in the map: the uses of one matrix add up, "
        "alike to first order in r, in what the output answers to it, in its gradient and in "
        "what its branches add to the stream",
        regime=Regime(r, sp.S.Zero),
        uses=(f"uses-{part.name}",),
        assumptions=("near-identity",),
        establishes=(r, G),
        checks=(LIMIT, Check("explicit sublayers, used once and twice", on_matrices)),
    )

    def stepped(step: Step) -> bool:
        """The optimizer run on entries of several sizes: two uses beside one, and three."""
        grown = step.rhs / update(eta, g, theta)
        return step.lhs == update(eta, n * g, theta) and all(
            near(
                number(step_length(optimizer, times * size, 3))
                / number(step_length(optimizer, size, 3)),
                grown.subs(n, times),
                digits=12,
            )
            for times in (2, 3)
            for size in (1, 7)
        )

    yield SECTION.equal(
        f"shared-update-{part.name}",
        update(eta, n * g, theta),
        n**of.p * update(eta, g, theta),
        f"its gradient is n_u times that of one use, and the update is of degree {of.p} in it",
        uses=("degrees", f"shared-response-{part.name}"),
        checks=(Check("the update on exact entries, its gradient multiplied", stepped),),
    )
