"""What a table in width or depth rests on is said, and another premise gives another number."""

import numpy as np
import pytest
import torch

from deepnet_theory.definitions.optimizer import custom_optimizer
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.models import step
from deepnet_theory.proof.explicit import evaluated
from deepnet_theory.sizes.width import width_table

MUON = "-eta*polar(g)/rms(polar(g))"
MOONLIGHT = "-eta*sqrt(max(rows(theta), columns(theta)))*polar(g)"


def few_and_many(update):
    """The table in width where a batch has fewer tokens than the width, and at full rank."""
    return (width_table(Selection(update=update, rank=rank)) for rank in ("low", "full"))


@pytest.mark.parametrize(("update", "low"), [(MUON, "1/d"), (MOONLIGHT, "d**(-1/2)")])
def test_spellings_of_one_update_at_full_rank_have_one_rate(update, low):
    few, many = few_and_many(update)
    assert (str(few.row("query").rate), str(many.row("query").rate)) == (low, "d**(-1/2)")
    assert any("fewer tokens than the width" in line for line in few.conventions)
    assert any("at least as many tokens" in line for line in many.conventions)
    assert few.row("head").rate == many.row("head").rate  # few logits: of low rank at any batch


def test_terms_of_two_ranks_are_refused():
    few, many = few_and_many("-eta*(polar(g)/rms(polar(g)) + sign(g))")
    assert str(few.row("query").rate) == "1/d"
    assert "of full rank to a term of low rank" in many.row("query").refused
    with pytest.raises(InputError, match="rank"):
        Selection(optimizer="muon", rank="high")


@pytest.mark.parametrize("update", ["-eta*g/norm(g)", "-eta*g*norm(g)**(-1)"])
def test_what_has_no_gradient_takes_no_step(update):
    """0/0 is 0, as for a zero head: so are rows of a ReLU unit that no token reaches."""
    expression = custom_optimizer(update).expression
    for rows in ([0.0, 1.0], [0.0, 0.0]):
        g = np.array(rows)[:, None] * np.array([3.0, 4.0])
        theta = np.ones_like(g)
        on_arrays = evaluated(expression.root, g, theta, eta=1.0)
        on_tensors = step.update(expression, 1.0, torch.tensor(g)[None], torch.tensor(theta)[None])
        size = np.linalg.norm(g) or 1.0
        for change in (on_arrays, on_tensors[0].numpy()):
            assert change == pytest.approx(-g / size)
