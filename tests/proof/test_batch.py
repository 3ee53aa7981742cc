"""The facts of a table in the batch: they hold for any update, and refute what is planted."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from sympy import sympify

from deepnet_theory.cli.deriving import derive
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.explicit import is_additive, update_of
from deepnet_theory.sizes import batch as table_room
from deepnet_theory.sizes import descent as descent_room
from deepnet_theory.sizes.batch import POWERS, B
from deepnet_theory.sizes.monomial import ONE
from deepnet_theory.sizes.width import role_table

EIGHTH = B ** Fraction(1, 8)
UPDATES = (
    "sgd", "adam", "lamb", "muon", "-eta*sign(g)*abs(g)**(1/3)", "-eta*g**3", "-eta*g*norm(g)",
    "-eta*clip(g/rms(g), -1, 1)", "-eta*(sign(g) + g/rms(g))", "-eta*(1 + norm(theta))*g",
    "-eta*abs(theta)*sign(g)",
)  # fmt: skip


def refuted(derivation):
    return {fact.of for fact in derivation.measured if fact.verdict is Verdict.REFUTED}


@pytest.mark.parametrize(
    ("update", "noise"),
    [*((u, "dominant") for u in UPDATES), *((u, "none") for u in UPDATES[::5])],
)
def test_explicit_matrices_with_noise_show_every_power(update, noise):
    derivation = derive(update, across="batch", gradient_noise=noise)
    assert (derivation.verdict, derivation.exit_code) == (Verdict.PROVED, 0), derivation.shown
    assert not any(f.holds is None for f in derivation.measured if f.of.endswith("fc1/batch/rate"))


@pytest.mark.parametrize("noise", ["dominant", "none"])
@pytest.mark.parametrize("update", ["sgd", "adam", "-eta*norm(theta)*g"])
def test_an_error_in_any_number_is_refuted(update, noise):
    """In all roles at once, each by its own fact, and by no other."""
    right = derive(update, across="batch", gradient_noise=noise)
    for number in (*POWERS, "refused"):
        rows = [replace(row, **{number: planted(row, number)}) for row in right.table.rows]
        wrong = refuted(replace(right, table=replace(right.table, rows=tuple(rows))))
        own = [f.of for f in right.measured if f.of.endswith(f"/batch/{number}")]
        assert len(own) == len(rows) and wrong == set(own), number


def planted(row, number):
    """Another power, a refusal where there is none, and none where there is one."""
    own = getattr(row, number)
    if number == "refused":
        return "because" if own is None else None
    return EIGHTH * (own or ONE)


@pytest.mark.parametrize("off", [Fraction(1, 8), Fraction(-1, 2)])
def test_a_wrong_degree_is_refuted(monkeypatch, off):
    right = table_room.degree

    def wrong(*given):
        power, is_linear = right(*given)
        return power + off, is_linear

    monkeypatch.setattr(table_room, "degree", wrong)
    assert "encoder/ffn/fc1/batch/rate" in refuted(derive("adam", across="batch"))


def test_a_regime_taken_for_the_other_is_refuted():
    noisy, still = (derive("adam", across="batch", gradient_noise=n) for n in ("dominant", "none"))
    swapped = replace(noisy, table=replace(noisy.table, rows=still.table.rows))
    assert swapped.verdict is Verdict.REFUTED


def test_conditions_that_disagree_are_seen(monkeypatch):
    """An update that noise moves one way: the summed noise is no random walk."""
    monkeypatch.setattr(descent_room, "is_odd_in_gradient", lambda _: True)
    drift = derive("-eta*max(g, 0)", across="batch")
    assert "encoder/ffn/fc1/batch/rate" in refuted(drift)


def test_where_a_fourth_moment_is_infinite_nothing_is_claimed_of_the_matrices():
    derivation = derive("-eta*sign(g)*abs(g)**(-2/5)", across="batch")
    of = {fact.of: fact.verdict for fact in derivation.measured}
    assert of["encoder/ffn/fc1/batch/rate"] is Verdict.UNDECIDED
    assert derivation.verdict is Verdict.PROVED and "rate" in derivation.shown


def test_the_json_has_what_programs_read():
    data = json.loads(derive("adamw", across="batch").to_json())
    assert (data["across"], data["batch"]["gradient_noise"]) == ("batch", "dominant")
    fc1 = next(row for row in data["batch"]["roles"] if row["role"] == "fc1")
    assert fc1["refused"] is None and fc1["part"] == "encoder"
    assert {name: sympify(fc1[name]) for name in POWERS} == {
        name: sympify(power)
        for name, power in {
            "rate": "sqrt(B)", "decay": "sqrt(B)", "coupled_decay": "1", "epsilon": "1/sqrt(B)",
            "memory": "B", "memory_rate": "sqrt(B)",
        }.items()
    }  # fmt: skip
    assert {"noise-dominated", "independent-samples"} == {a["name"] for a in data["assumptions"]}


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("adamw", lambda p, forgets: torch.optim.AdamW([p], 1.0, betas=(1 - forgets,) * 2)),
        ("rmsprop", lambda p, forgets: torch.optim.RMSprop([p], 1.0, alpha=1 - forgets)),
        ("nesterov", lambda p, f: torch.optim.SGD([p], 1.0, momentum=1 - f, nesterov=True)),
    ],
)
def test_the_library_moves_as_far_over_the_same_samples(name, made):
    """Where 1 − β takes its factor, and the rate the one beside it, whatever the batch."""
    row = role_table(Selection(optimizer=name), "batch").row("fc1")
    samples = 0.02 + torch.randn(2000, 64, generator=torch.Generator().manual_seed(0))
    moved = []
    for batch in (1, 8):
        parameter = torch.nn.Parameter(torch.zeros(64))
        optimizer = made(parameter, row.memory.at(B=batch) / 400)
        optimizer.param_groups[0].update(lr=row.memory_rate.at(B=batch), weight_decay=0.0)
        at = []
        for one in samples.reshape(-1, batch, 64).mean(1):
            parameter.grad = one
            optimizer.step()
            at.append(parameter.detach().clone())
        moved.append(float((at[-1] - at[800 // batch]).norm()))  # once averages are full
    assert moved[1] == pytest.approx(moved[0], rel=0.05)


@pytest.mark.parametrize("update", ["sgd", "adam", "-eta*g*norm(g)"])
def test_the_curve_goes_from_one_regime_to_the_other(update):
    """Its end at small batches is the rule's own power; a point that is wrong is refuted."""
    derivation = derive(update, across="batch", curve=True)
    curve, rate = derivation.curve, derivation.table.row("fc1").rate
    assert derivation.verdict is Verdict.PROVED
    (small, low), (larger, high) = list(curve.items())[:2]
    assert np.log(high / low) / np.log(larger / small) == pytest.approx(
        float(rate.exponent("B")), abs=0.06
    )
    assert list(curve.values())[-1] == pytest.approx(1.0, rel=0.05)
    wrong = replace(derivation)
    vars(wrong)["curve"] = {ratio: right * 1.1 for ratio, right in curve.items()}
    assert refuted(wrong) == {f"{ratio:.2g}/batch/curve" for ratio in curve}
    data = derivation.to_dict()["curve"]
    assert (data["premise"] == "any gradient") is (update == "sgd")
    assert [(point["batch"], point["rate"]) for point in data["points"]] == list(curve.items())
    assert derivation._repr_html_().count("<svg") == 1


def test_at_normal_entries_the_mean_gradient_is_a_share_of_the_noisy_one():
    """E[G | g] = g/(1 + σ), which the draws of the curve take, on independent draws of both."""
    mean, xi = np.random.default_rng(3).normal(size=(2, 400_000))
    for spread in (0.5, 2.0):
        g = mean + spread * xi
        for inside in (abs(g) < 0.7, (g > 1) & (g < 2)):
            share = (mean * np.sign(g))[inside].mean() / abs(g)[inside].mean()
            assert share == pytest.approx(1 / (1 + spread**2), abs=0.02)


@pytest.mark.parametrize("update", ["-eta*sign(g)*abs(g)**(-2/5)", "-eta*g**5"])
def test_a_curve_of_heavy_tails_is_not_decided_and_never_refuted(update):
    derivation = derive(update, across="batch", curve=True)
    points = [fact.verdict for fact in derivation.measured if fact.of.endswith("curve")]
    assert Verdict.UNDECIDED in points and Verdict.REFUTED not in points
    assert derivation.verdict is Verdict.PROVED and "curve" in derivation.shown


def test_with_other_dimensions_exponents_add():
    joint = derive("adamw", across="depth,width,batch")
    assert joint.verdict is Verdict.PROVED
    wide, alone = derive("adamw", across="both"), derive("adamw", across="batch")
    for row, bare, own in zip(joint.table.rows, wide.table.rows, alone.table.rows, strict=True):
        assert row.place == bare.place == own.place
        for number in ("rate", "epsilon", "decay"):
            size = getattr(bare, number)
            assert getattr(row, number) == (size and size * getattr(own, number)), row.role
    data = joint.to_dict()
    assert data["across"] == "depth,width,batch" and "B" in data["roles"][0]["rate"]
    deep = derive("adamw", across="depth,batch", depth=24).to_dict()
    assert deep["rule"][0]["alpha_value"] and deep["batch"]["roles"]


@pytest.mark.parametrize(
    ("update", "holds"),
    [("-eta*g", True), ("-eta*norm(g)*sign(g)", False), ("-eta*sign(g)", False)],
)
def test_an_update_of_degree_1_is_additive_only_where_sums_of_gradients_add(update, holds):
    assert is_additive(update_of(Selection(update=update).the_optimizer, at_zero=False)) is holds
