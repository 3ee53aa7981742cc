"""Matrices of (vocabulary, width): one update changes features and logits alike at every size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory import export
from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.proof.explicit import change, update_of

HEAD_SIZE = 4


def moved(name, vocab, width):
    """What an update of the head adds to a logit, and one of the table to a feature, per η."""
    draw = np.random.default_rng(0)
    theta, feature = draw.normal(size=(vocab, width)), draw.choice([-1.0, 1.0], width)
    update = update_of(optimizer(name))
    of_head = change(update, np.outer(draw.normal(size=vocab), feature), theta)
    tokens, backward = draw.choice([-1.0, 1.0], vocab), draw.normal(size=width)
    of_table = change(update, np.outer(tokens, backward), theta)
    sizes = np.linalg.norm(of_head @ feature) / vocab**0.5, np.linalg.norm(of_table[0]) / width**0.5
    return np.array(sizes)


@pytest.mark.parametrize("name", ["muon", "muon-moonlight", "muon-spectral", "muon-plain"])
@settings(max_examples=5)
@given(vocab=st.integers(2, 200), fewer=st.integers(2, 200), base=st.integers(1, 8),
       times=st.integers(1, 8))  # fmt: skip
def test_an_update_changes_logits_and_features_as_in_the_base(name, vocab, fewer, base, times):
    small = base * HEAD_SIZE
    width, at_base = times * small, (small, 2, {"vocab": fewer})
    c = export(name, 2, width=width, heads=width // HEAD_SIZE, vocab=vocab, base=at_base)
    rows = {at[-1]: p for at, p in c.rows.items() if at[1] is None}
    rates = np.array([c.head_multiplier * rows["head"].rate, rows["token_embedding"].rate])
    assert rates * moved(name, vocab, width) / moved(name, fewer, small) == pytest.approx(1.0)
    assert rows["head"].weight_decay * rows["head"].rate == pytest.approx(1.0)
