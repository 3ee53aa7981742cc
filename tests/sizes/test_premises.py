"""What a table in width or depth rests on is said, and another premise gives another number."""

import json

import numpy as np
import pytest
import torch

from deepnet_theory.cli import main
from deepnet_theory.definitions.optimizer import custom_optimizer
from deepnet_theory.models import step
from deepnet_theory.proof.explicit import evaluated

MUON = "-eta*polar(g)/rms(polar(g))"
MOONLIGHT = "-eta*sqrt(max(rows(theta), columns(theta)))*polar(g)"


def derived(capsys, *words):
    """The exit code of derive, and its JSON by role."""
    code = main(["derive", *words, "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    return code, data, {row["role"]: row for row in data["roles"]}


@pytest.mark.parametrize(("update", "low"), [(MUON, "1/d"), (MOONLIGHT, "d**(-1/2)")])
def test_spellings_of_one_update_at_full_rank_have_one_rate(capsys, update, low):
    _, data, few = derived(capsys, "--update", update, "--across", "width")
    code, told, many = derived(capsys, "--update", update, "--across", "width", "--rank", "full")
    assert code == 0
    assert (few["query"]["rate"], many["query"]["rate"]) == (low, "d**(-1/2)")
    assert any("fewer tokens than the width" in line for line in data["conventions"])
    assert any("at least as many tokens" in line for line in told["conventions"])
    assert few["head"]["rate"] == many["head"]["rate"]  # few logits: of low rank whatever the batch


def test_terms_of_two_ranks_are_refused(capsys):
    words = ("--update", "-eta*(polar(g)/rms(polar(g)) + sign(g))", "--across", "width")
    _, _, few = derived(capsys, *words)
    _, _, many = derived(capsys, *words, "--rank", "full")
    assert few["query"]["rate"] == "1/d"
    assert "of full rank to a term of low rank" in many["query"]["refused"]
    assert main(["derive", *words, "--rank", "high"]) == 2


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
