"""What an answer calls its rules."""

import pytest

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.answer import Answer


@pytest.mark.parametrize(
    ("closure", "names"),
    [
        (None, ["as published (symmetric)", "recommended for training (complete)"]),
        ("symmetric", ["closure symmetric", "recommended for training (complete)"]),
        ("unit-init", ["closure unit-init, and recommended for training"]),
        ("complete", ["recommended for training (complete)"]),
    ],
)
def test_a_rule_that_is_the_one_to_train_with_stands_once_under_both_names(closure, names):
    answer = Answer(Selection(optimizer="adam", closure=closure))
    assert [row.named for row in answer.rows] == names
