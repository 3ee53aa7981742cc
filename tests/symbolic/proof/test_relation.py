"""How relations compose."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.symbolic.proof.step import Relation, join

relations = st.sampled_from(list(Relation))


def test_the_composition_table():
    E, A, L, T, B = (
        Relation.EQUAL,
        Relation.ASYMPTOTIC,
        Relation.AT_MOST,
        Relation.ORDER,
        Relation.BOUND,
    )
    assert join([E, E]) is E and join([E, A]) is A and join([A, T]) is T and join([T, B]) is B
    assert join([E, L]) is L and join([L, L]) is L and join([L, T]) is B and join([L, A]) is B
    assert join([]) is E


@given(relations, relations, relations)
def test_joining_is_commutative_associative_and_idempotent(a, b, c):
    assert join([a, b]) is join([b, a])
    assert join([join([a, b]), c]) is join([a, join([b, c])])
    assert join([a, a]) is a


def test_joining_never_strengthens():
    for a, b in product(Relation, Relation):
        assert join([join([a, b]), a]) is join([a, b])
