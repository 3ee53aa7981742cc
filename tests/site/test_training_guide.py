"""The guide *Training with it*: every block runs, and does what the page says."""

import math
import re
import warnings
from pathlib import Path

import pytest
import torch

import deepnet_theory as dt

pytestmark = pytest.mark.notebooks
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "training-with-it.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """All blocks, run in their order in one folder."""
    pytest.importorskip("accelerate")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("guide"))
        patch.syspath_prepend(ROOT / "docs" / "paths")
        for block in BLOCKS:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message="the schedule has flattened")
                exec(compile(block, "docs/training-with-it.md", "exec"), found)
            if "losses" in found and "trained" not in found:
                found["trained"] = list(found["losses"])
        found["test_the_model_follows_its_rule"]()
    return found


def test_the_loss_starts_at_ln_v_and_falls_and_one_step_moves_every_depth_alike(session):
    (exponent, *_), losses = session["found"].exponents, session["trained"]
    assert abs(exponent.estimate) < 1 / 8 and session["found"].verdict is not dt.Verdict.REFUTED
    assert losses[0] == pytest.approx(math.log(session["VOCAB"]), rel=0.06)
    assert losses[-1] < losses[0] - 1


def test_the_resumed_optimizer_has_the_state_and_the_rates(session):
    one, other = session["optimizer"], session["resumed"]
    for g, h in zip(one.param_groups, other.param_groups, strict=True):
        assert g["lr"] == h["lr"] and g["lr_scale"] == h["lr_scale"]
    state = [[s["exp_avg"].norm() for s in o.state.values()] for o in (one, other)]
    assert state[0] and all(map(torch.equal, *state))


def test_every_parameter_is_stepped_once_by_muon_or_adamw(session):
    groups = [g for one in session["optimizers"] for g in one.param_groups]
    stepped = [p for g in groups for p in g["params"]]
    assert {id(p) for p in stepped} == {id(p) for p in session["model"].parameters()}
    assert len(stepped) == len({id(p) for p in stepped})
    assert {g["optimizer"] for g in groups} == {"muon", "adamw"}
    assert session["trainer"].state.global_step == 8
    rates = {g["lr"] for g in session["hf_optimizer"].param_groups}
    assert len(rates) > 1 and max(rates) == pytest.approx(session["LR"], rel=0.01)


def test_a_model_off_its_rule_fails_the_test_of_the_page(session):
    model, ids = session["ruled"](session["DEPTH"])
    with torch.no_grad():
        model.layers[3].down.weight.mul_(2)
    optimizer = torch.optim.AdamW(session["parameter_groups"](model, lr=1e-3))
    audit = dt.audit(model, ids, optimizer=optimizer, constants=session["constants"])
    assert audit.verdict is not dt.Verdict.SUPPORTED
