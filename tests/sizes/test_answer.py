"""What an answer calls its rules."""

from dataclasses import replace

import pytest

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.table import table, texts


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


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
@pytest.mark.parametrize("placement", ["post-ln", "pre-ln", "res-post-ln"])
@pytest.mark.parametrize("stack", ["encoder", "encoder-decoder"])
def test_the_rule_to_train_with_is_the_complete_one_wherever_there_is_one(
    optimizer, placement, stack
):
    asked = Selection(optimizer=optimizer, placement=placement, stack=stack)
    answer, complete = Answer(asked), table(replace(asked, closure="complete"))
    assert (answer.training_closure, answer.training_refused) == ("complete", "")
    assert answer.training == texts(complete.rule)
    # on the table itself: nothing of a step grows or falls with a depth
    assert not any(order.symbols for row in complete.sublayers for order in row.orders)
