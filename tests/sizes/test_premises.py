"""What a table in width or depth rests on is said, and another premise gives another number."""

import json

import numpy as np
import pytest
import torch

from deepnet_theory.cli import main
from deepnet_theory.definitions.optimizer import custom_optimizer
from deepnet_theory.models import step
from deepnet_theory.proof.explicit import evaluated


def derived(capsys, *words):
    """The exit code of derive, and its JSON by role."""
    code = main(["derive", *words, "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    return code, data, {row["role"]: row for row in data["roles"]}


@pytest.mark.parametrize(
    ("update", "rate"),
    [
        ("-eta*sqrt(rows(theta)/columns(theta))*polar(g)", "d"),
        ("-eta*sqrt(columns(theta)/rows(theta))*polar(g)", "1"),
    ],
)
def test_an_embedding_is_counted_as_torch_stores_it(capsys, update, rate):
    code, _, roles = derived(capsys, "--update", update, "--across", "width")
    assert code == 0
    assert roles["token-embedding"]["rate"] == rate


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
