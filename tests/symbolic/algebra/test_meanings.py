"""Every symbol of a derivation is said."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.algebra.meanings import meaning, named
from deepnet_theory.symbolic.derivation import Derivation


def test_every_symbol_of_a_derivation_is_said_where_it_first_stands(derived: Derivation) -> None:
    assert [name for name, m in derived.symbols.items() if not m.words] == []
    order = [step.name for step in derived.steps]
    for name, m in derived.symbols.items():
        holds = [s.name for s in derived.steps if name in named(s.lhs) | named(s.rhs)]
        assert holds[0] == m.step and order.index(m.step) == min(map(order.index, holds))


def test_a_symbol_that_nobody_has_said_has_no_meaning():
    found = named(sp.Symbol("q_e") * sp.Function("Q")(sp.Symbol("alpha_e")))
    assert sorted(found) == ["Q()", "alpha_e", "q_e"]
    assert [meaning(name, "probe") is None for name in sorted(found)] == [True, False, True]
    assert meaning("m", "lemma") != meaning("m", "moments")


def test_a_name_of_several_functions_means_the_first_in_order():
    f, (a, b, c) = sp.Function("f"), sp.symbols("a b c")
    assert named(f(c) * f(a) + f(b))["f()"] == f(a)
