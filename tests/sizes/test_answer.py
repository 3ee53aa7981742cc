"""Which rule an answer gives, and what stands beside it."""

from dataclasses import replace

import pytest

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.answer import Answer

RECOMMENDED, SOURCE = "recommended for training (complete)", "as published (symmetric)"


@pytest.mark.parametrize(
    ("closure", "names"),
    [
        (None, [RECOMMENDED, SOURCE]),
        ("published", [SOURCE]),
        ("symmetric", ["as asked (symmetric)"]),
        ("complete", [RECOMMENDED]),
    ],
)
def test_the_recommended_rule_is_first_and_the_published_one_below_it(closure, names):
    answer = Answer(Selection(optimizer="adam", closure=closure))
    assert [row.named for row in answer.rows] == names
    assert answer.rows[0].rule == answer.rule
    assert ("published" in answer.to_dict()) == (len(names) > 1)
    if closure is None:
        source = Answer(replace(answer.selection, closure="published"))
        assert answer.source == source and source.source is None
        rows = [row | {"closure": "symmetric"} for row in source.to_dict()["rule"]]
        assert rows == answer.to_dict()["published"] and answer.refused_for_training == ""


def test_where_no_closure_is_complete_the_rule_is_the_sources_and_the_reason_is_given():
    # its exponents under `complete` are beyond what the grammar of depths writes
    asked = Selection(update="-eta*g*norm(theta)**(255/256)", placement="res-post-ln")
    answer, source = Answer(asked), Answer(replace(asked, closure="published"))
    assert answer.rule == answer.source.rule == source.rule
    assert [row.chosen for row in answer.rows] == ["as published"]
    assert answer.refused_for_training in answer.in_depth
    assert answer.to_dict()["refused_for_training"] == answer.refused_for_training != ""
    assert "refused_for_training" not in source.to_dict()
