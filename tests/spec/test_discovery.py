"""Folders of values: adding one file is enough, and anything irregular raises."""

import pytest

from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.discovery import KINDS, choose, discover, names
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.optimizer import Optimizer, optimizers
from deepnet_theory.spec.placement import Placement, placements
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.sublayer import sublayers

GOOD = """
from deepnet_theory.spec.optimizer import Optimizer
MINE = Optimizer(name="my-rule", update="-eta*g*norm(theta)")
"""


def test_adding_one_file_is_enough(tmp_path):
    (tmp_path / "my_rule.py").write_text(GOOD, encoding="utf-8")
    found = discover(tmp_path, Optimizer)
    assert list(found) == ["my-rule"]
    assert found["my-rule"].expression.names == {"eta", "g", "theta"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "X = 1",
        GOOD.replace('"my-rule"', '"other"'),
        GOOD + "ANOTHER = Optimizer(name='second', update='-eta*g')\n",
        "raise RuntimeError('broken')",
    ],
)
def test_an_irregular_file_raises(tmp_path, content):
    (tmp_path / "my_rule.py").write_text(content, encoding="utf-8")
    with pytest.raises((TypeError, RuntimeError)):
        discover(tmp_path, Optimizer)


def test_the_folders_hold_what_their_files_say():
    for values in (optimizers(), placements(), closures(), sublayers()):
        assert values
        assert all(value.name == name for name, value in values.items())


def test_an_unknown_name_lists_the_valid_ones_and_one_of_another_kind_is_said_to_be_one():
    with pytest.raises(InputError, match=r"unknown optimizer 'adamm'; valid are: .*adam.*sgd"):
        choose("optimizer", "adamm", optimizers())
    for name, kind in (("Post-LN", "placements"), ("rms", "norms"), ("deepnorm", "schemes")):
        with pytest.raises(InputError, match=f"'{name}' is one of the {kind}$"):
            choose("optimizer", name, optimizers())
    assert all(names(kind) for kind in KINDS)


def test_facts_of_a_value_are_read_off_its_formula():
    assert {name for name, s in sublayers().items() if s.reads_memory} == {"cross"}
    assert {name for name, p in placements().items() if p.normalises_sum} == {"post-ln"}
    for layer, crossings in (("attention,cross,ffn", 1), ("cross,cross", 2), ("attention,ffn", 0)):
        encoder, decoder = stack("encoder-decoder", layer).parts
        assert (encoder.crossings, decoder.crossings) == (0, crossings)
    for equation, encloses in (
        ("norm(x + branch(x))", True),
        ("x + norm(branch(x))", False),
        ("x + branch(norm(x))", False),
        ("alpha*norm(x + branch(x))", False),
    ):
        assert Placement("odd", equation, False).normalises_sum is encloses
