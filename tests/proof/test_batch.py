"""A table in the batch: premises that are wrong, the libraries' own steps, and the curve."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.cli.deriving import derive
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof import batch as proof_room
from deepnet_theory.sizes import batch as table_room
from deepnet_theory.sizes import descent as descent_room
from deepnet_theory.sizes.width import role_table


def refuted(derivation):
    return {fact.of for fact in derivation.measured if fact.verdict is Verdict.REFUTED}


@pytest.mark.parametrize("off", [Fraction(1, 8), Fraction(-1, 2)])
def test_a_wrong_degree_is_refuted(monkeypatch, off):
    right = table_room.degree
    assert refuted(derive("adam", across="batch")) == set()

    def wrong(*given):
        power, is_linear = right(*given)
        return power + off, is_linear

    monkeypatch.setattr(table_room, "degree", wrong)
    assert "encoder/ffn/fc1/batch/rate" in refuted(derive("adam", across="batch"))


def test_conditions_that_disagree_are_seen(monkeypatch):
    """An update that noise moves one way: the summed noise is no random walk."""
    monkeypatch.setattr(descent_room, "is_odd_in_gradient", lambda _: True)
    drift = derive("-eta*max(g, 0)", across="batch")
    assert "encoder/ffn/fc1/batch/rate" in refuted(drift)


# descent, signs, powers, trust ratios, spectral and clipped updates; and what multiplies them
entries = st.sampled_from((
    "g", "sign(g)", "sign(g)*abs(g)**(1/3)", "g*abs(g)", "g/rms(g)",
    "abs(theta)*sign(g)", "norm(theta)*g/norm(g)", "polar(g)", "polar(g) + sign(g)",
    "clip(g/rms(g), -1, 1)", "g/(abs(g) + rms(g))", "g/sqrt(g**2 + rms(g)**2)",
    "sign(g) + g/rms(g)", "max(abs(g), rms(g))*sign(g)", "sqrt(abs(g))*sign(g)/norm(sqrt(abs(g)))",
))  # fmt: skip
numbers = st.sampled_from((
    "1", "norm(g)", "1/sqrt(norm(g))", "norm(g)**(-2)", "max(rms(theta), 1/1000)",
    "sqrt(max(rows(theta), columns(theta)))",
))  # fmt: skip


@settings(max_examples=15)
@given(entries, numbers)
def test_updates_of_the_literature_gain_most_at_the_derived_rate(entry, number):
    selection = Selection(update=f"-eta*({entry})*{number}")
    row = role_table(selection, "batch").row("fc1")
    shown = proof_room.numbers(row, selection.the_optimizer, "dominant")["rate"]
    assert shown.test(row.rate), shown.found


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


@pytest.mark.parametrize("update", ["sgd", "adam", "-eta*norm(g)*sign(g)", "-eta*g*norm(g)"])
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


@pytest.mark.parametrize(
    ("update", "of"),
    [("-eta*sign(g)*abs(g)**(-2/5)", ("fc1/batch/rate", "curve")), ("-eta*g**5", ("curve",))],
)
def test_where_a_fourth_moment_is_infinite_nothing_is_decided_and_never_refuted(update, of):
    derivation = derive(update, across="batch", curve=True)
    assert derivation.verdict is Verdict.PROVED and not refuted(derivation)
    for name in of:
        verdicts = {fact.verdict for fact in derivation.measured if fact.of.endswith(name)}
        assert Verdict.UNDECIDED in verdicts and name.split("/")[-1] in derivation.shown
