"""A small derivation made by hand, so that rendering is tested apart from the engine."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
import sympy as sp

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.algebra import Hadamard, Softmax
from deepnet_theory.proof.derivation import Derivation
from deepnet_theory.proof.step import Check, Relation, Step

N, S, r, p = sp.symbols("N S r p", positive=True)
A, H = sp.symbols("A H", commutative=False)
VOID = re.compile(r"<(!doctype|meta|link|br|wbr)\b[^>]*>")


def balanced(html):
    """The number of elements of each tag; fails where what is closed is not the last one opened."""
    root = ElementTree.fromstring(f"<all>{VOID.sub('', html)}</all>")
    return Counter(element.tag.rpartition("}")[2] for element in root.iter())


@pytest.fixture(scope="session")
def derivation():
    nothing = (Check("by hand", lambda step: True),)
    tangent = Hadamard(Softmax(A), H)
    size = r * (N + 1) ** p
    rows = (  # name, left, relation, right, because, section, and the rest
        ("count", S, "EQUAL", 2 * N, "two sublayers a layer <with α & β>", "Stack",
         {"checks": nothing}),
        ("tangent", tangent, "EQUAL", tangent, "the softmax has no law of its own", "Branch",
         {"checks": nothing}),
        ("gain", r / (1 + r), "AT_MOST", r, "the branch weight r_l is small", "Branch",
         {"uses": ("count",)}),
        ("bound", size, "BOUND", size, "a sum of equal terms; 100% of them", "Balance",
         {"uses": ("gain",)}),
        ("size", p, "ORDER", 1 / sp.sqrt(2 * N), "balance and closure", "Balance",
         {"uses": ("bound",), "checks": nothing}),
    )  # fmt: skip
    steps = tuple(
        Step(name, lhs, rhs, Relation[relation], because, section=section, **rest)
        for name, lhs, relation, rhs, because, section, rest in rows
    )
    return narrated(steps)


def narrated(steps, conclusion=("size",)):
    """A derivation that has these steps."""
    own = {"steps": steps, "conclusion": conclusion}
    return type("Derivation", (Derivation,), own)(Selection(optimizer="lamb"))
