"""How far one update through each role moves its output and the loss, at the rule and elsewhere."""

from __future__ import annotations

from fractions import Fraction

import pytest

from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.moves import scalings

HALF = Fraction(1, 2)


def moves(optimizer: str, name: str) -> dict[str, tuple[Fraction | None, Fraction | None]]:
    found = scalings(Selection(optimizer=optimizer), name)
    return {s.role: (s.output, s.loss) for s in found}


@pytest.mark.parametrize("optimizer", optimizers())
def test_at_the_rule_one_update_through_any_role_moves_as_far_at_every_width(
    optimizer: str,
) -> None:
    found = set(moves(optimizer, "rule").values())
    assert (0, 0) in found and found <= {(0, 0), (None, None)}  # where a zero stays one


@pytest.mark.parametrize(
    ("optimizer", "name", "role", "output", "loss"),
    [
        # Yang et al., arXiv 2203.03466, appendix J: Adam's entries are 1, and d of them add up
        ("adam", "sp", "fc1", 1, 3 * HALF),
        ("adam", "sp", "head", 1, 1),
        ("adam", "sp", "token-embedding", 0, HALF),
        ("adam", "ntp", "fc1", HALF, 1),
        ("sgd", "sp", "fc1", HALF, 1),
        ("sgd", "sp", "token-embedding", -HALF, 0),
        # Jacot et al., arXiv 1806.07572: features move by 1/sqrt(d), the function by 1
        ("sgd", "ntp", "fc1", -HALF, 0),
        ("sgd", "ntp", "head", 0, 0),
    ],
)
def test_known_powers_of_parametrisations(
    optimizer: str, name: str, role: str, output: Fraction, loss: Fraction
) -> None:
    assert moves(optimizer, name)[role] == (output, loss)


def test_nothing_is_said_of_the_loss_where_the_terms_do_not_add_up() -> None:
    found = {s.role: s for s in scalings(Selection(update="-eta*theta*sign(g)"))}
    assert found["fc1"].output == 0 and found["fc1"].loss is None
    assert found["fc1-bias"].output is None  # it stays 0


def test_the_key_bias_is_left_out_and_an_unknown_point_refused() -> None:
    assert "key-bias" not in moves("adam", "rule")
    with pytest.raises(InputError, match=r"unknown rule 'mupp'; valid are: rule, .*ntp, .*sp"):
        scalings(Selection(optimizer="adam"), "mupp")
