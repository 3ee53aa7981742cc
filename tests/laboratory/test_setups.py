"""Training runs of your own: the contract, what is kept; and what a run is watched for."""

import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory.cli import main
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.placement import placement
from deepnet_theory.laboratory.runs import CommonMode, is_taken, warning, watching
from deepnet_theory.runtime import build

RATES = "1e-3:1.28e-1"


def planted(depth, lr, width=64, power=0):
    """A training whose best rate falls with a power of the depth, and which 0.1 makes diverge."""
    best = 8e-3 * (8 / depth) ** power * math.exp(0.02 * float(torch.randn(())))
    steps = []

    def step():
        steps.append(math.nan if lr > 0.1 else 3.0)
        return torch.tensor(steps[-1])

    def evaluate():
        assert len(steps) == 5
        return 2 + 0.2 * math.log(lr / best) ** 2

    return step, evaluate, 3.2


def transfer(make, depths="4,16", rates=RATES, **given):
    return dt.transfer(make, depths, rates, **{"steps": 5, "seeds": 3, **given})


@pytest.mark.parametrize(("power", "verdict"), [(0, Verdict.SUPPORTED), (1, Verdict.REFUTED)])
def test_a_planted_exponent_is_found_in_depth_and_none_in_width(power, verdict):
    found = transfer(lambda depth, lr, width: planted(depth, lr, width, power), widths="64,128")
    assert found.verdict is verdict and found.exit_code == verdict.exit_code
    (own,) = found.closures
    width, depth = own.exponents
    assert (width.variable, depth.variable) == ("d", "N")
    assert depth.estimate == pytest.approx(-power, abs=0.01)
    assert width.estimate == pytest.approx(0, abs=0.01)
    assert [c.depth for c in own.curves][:3] == [
        {"N": 4, "d": 64}, {"N": 4, "d": 128}, {"N": 16, "d": 64},
    ]  # fmt: skip
    assert found.baseline == pytest.approx(3.2)
    data = json.loads(found.to_json())
    (closure,) = data["closures"]
    assert data["schema"] == "deepnet-theory/transfer/1" and closure["closure"] == "own"
    for curve in closure["curves"]:
        assert curve["common_mode"] is None and curve["collapsed"][-1] == 3
        assert curve["low"] < curve["best"] < curve["high"]
        assert curve["losses"][-1] is None and 0.01 < curve["first_failing"] <= 0.128
    assert "the loss was nan at step 0" in found.provenance.warnings[0]


def test_another_process_does_the_same(elsewhere):
    make = f"{__file__}:planted"  # which travels as this text
    both_ways = (transfer(make, executor=one).to_json() for one in (elsewhere, None))
    there, here = (json.loads(data)["closures"] for data in both_ways)
    assert there == here  # as plain data, where no NaN differs from itself
    ours = transfer(lambda depth, lr: both(lr), executor=elsewhere)  # which cannot travel
    assert ours.closures[0].curves[0].best == pytest.approx(1e-2)


def both(value, *more):
    """A run that gives the squared distance to a rate of 0.01."""
    return (lambda: None), (lambda: 2 + math.log(value / 1e-2) ** 2), *more


def test_seeds_that_change_nothing_give_no_interval_and_any_quantity_is_least():
    found = transfer(lambda depth, lr: (lambda: None, lambda: -10 + (math.log(lr / 0.01)) ** 2))
    (own,) = found.closures
    assert found.verdict is Verdict.UNDECIDED and "all 3 seeds" in found.provenance.warnings[0]
    assert own.curves[0].best == pytest.approx(0.01) and len(own.curves[0].values[0]) == 1
    assert found.baseline is None and own.curves[0].best_loss == pytest.approx(-10)
    assert own.curves[0].collapsed == (0,) * 8 and json.loads(found.to_json())["baseline"] is None


def test_a_run_that_diverges_is_the_worst_and_says_why():
    def setup(lr, width, seed):
        def evaluate():
            return 1 / (lr < 0.1) + math.log(lr / 0.01) ** 2 + 0.01 * seed

        return (lambda: math.inf if 0.05 < lr < 0.1 else None), evaluate

    found = transfer(setup, None, widths=[32, 64])
    for curve in found.closures[0].curves:
        assert curve.collapsed == (0,) * 6 + (3,) * 2 and curve.first_failing == 0.064
    first = "12 of 48 runs diverged; the first, of setup at d = 32, lr 0.064, seed 0: "
    assert found.provenance.warnings[0] == f"{first}the loss was inf at step 0"
    small = transfer(setup, None, "0.03,0.04,0.128", widths=[32])
    assert "ZeroDivisionError: division by zero" in small.provenance.warnings[0]


def fails(*given):
    raise ValueError("no such file")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda depth, lr: 1 / 0, "seed 0 failed: ZeroDivisionError"),
        (lambda depth, lr: fails(), r"lambda> at N = 4, lr 0.001, seed 0 failed: ValueError: no"),
        (lambda depth, lr: torch.nn.Linear(2, 2), r"gives Linear\(.* return step, evaluate"),
        (lambda depth, lr: (fails, fails), r"step\(\) failed at step 0: ValueError: no such file"),
        (lambda depth, lr: (list, fails), r"seed 0: step\(\) gives \[\], which is no number"),
        (lambda depth, lr: (lambda: None, fails), r"evaluate\(\) failed: ValueError"),
        (lambda depth, lr: (lambda: None, str), r"evaluate\(\) gives '', which is no number"),
        (lambda depth, lr: (lambda: torch.ones(2), str), r"step\(\) gives tensor\(\[1., 1.\]\)"),
        (lambda depth, lr: both(lr, "x"), r"the baseline of .* gives 'x', which is no number"),
        (lambda depth: None, "takes no lr, .* a plain factory of models is trained on text with"),
        (lambda lr: None, "takes no depth, so that its depth cannot be varied"),
        (lambda depth, lr, data: None, "missing 1 required positional argument: 'data'"),
    ],
)  # fmt: skip
def test_a_factory_that_keeps_no_contract_is_one_sentence(make, said):
    with pytest.raises(InputError, match=said) as caught:
        transfer(make)
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)


def test_a_planted_power_of_the_steps_forecasts_the_best_rate():
    """A loss of (ηT)^(−1/2) + η is lowest at an η that falls as T^(−1/3)."""

    def train_setup(depth, lr, seed, steps):
        taken, noise = [], 1e-3 * np.random.default_rng((seed, steps)).normal()

        def evaluate():
            assert len(taken) == steps
            return (1 + noise) * ((lr * steps) ** -0.5 + lr)

        return partial(taken.append, None), evaluate

    found = transfer(train_setup, "1", "0.02:1", steps=(32, 128, 512))
    (own,), (of_best,) = found.closures, found.closures[0].signal
    assert own.exponent.variable == "T" and found.settings["steps"] == [32, 128, 512]
    assert own.exponent.estimate == pytest.approx(-1 / 3, abs=0.02)
    assert of_best.low < of_best.estimate < of_best.high
    assert of_best.estimate == pytest.approx(1 / 2, abs=0.05) and "4 times" in of_best.because
    assert own.cost.mean > 0 and own.verdict is Verdict.REFUTED  # one rate is not for all T


@pytest.mark.parametrize("sizes", [{"depths": "4,8"}, {"depths": None, "widths": "32,64"}])
def test_the_signature_of_the_help_is_enough(sizes):
    given = []

    def train_setup(depth, width, lr, seed):
        given.append((depth, width))
        return both(lr)

    assert transfer(train_setup, **sizes).closures[0].curves[0].best == pytest.approx(1e-2)
    expected = {(4, 64), (8, 64)} if sizes["depths"] else {(4, 32), (4, 64)}
    assert {*given} == expected


def untrained(depth):
    """A model, and nothing of a training."""
    return GPT(depth, d=16, vocab=64)


def test_a_plain_factory_is_trained_on_text(tmp_path, capsys):
    found = transfer(untrained, "1,2", "1e-3:1e-1:3", optimizer="adam", seeds=2)
    assert 2 < found.baseline < math.log(64) and found.of["optimizer"] == "adam"
    for curve in found.closures[0].curves:
        low, middle, _ = curve.losses
        assert middle < low < math.log(64) + 0.5  # more is learnt at the larger rate
    # as a command, with inputs of its own
    (tmp_path / "mine.py").write_text(
        "import torch\nX = torch.linspace(-1, 1, 32).view(8, 4)\ndef make(depth):\n"
        "    maps = [torch.nn.Linear(4, 4) for _ in range(depth)]\n"
        "    return torch.nn.Sequential(*maps, torch.nn.Linear(4, 4)), X\n"
    )
    words = ["transfer", f"{tmp_path / 'mine.py'}:make", "--depths", "1,2", "--rates", "1e-3:1:4"]
    words += ["--optimizer", "sgd", "--steps", "3", "--seeds", "2", "--format", "json"]
    assert main(words) in (0, 1, 3)
    data = json.loads(capsys.readouterr().out)
    assert all(None not in c["losses"] for c in data["closures"][0]["curves"])
    assert main([w for w in words if w not in ("--format", "json")]) in (0, 1, 3)
    shown = capsys.readouterr().out
    for curve in data["closures"][0]["curves"]:  # every loss is printed
        assert all(f"{loss:.3f}" in shown for loss in curve["losses"])


LAYERS, WIDTH = 6, 32


@pytest.fixture
def plain(constants):
    def make(placement, alpha=1.0):
        return constants(
            layers=LAYERS, width=WIDTH, placement=placement, norm="rms", alpha=alpha, beta=1.0
        )

    return make


@pytest.mark.parametrize("name", ("post-ln", "pre-ln", "branch-multiplier", "res-post-ln"))
def test_a_planted_direction_is_seen(plain, name):
    alpha = 1.0 if name == "pre-ln" else 3.0
    model = build(plain(name, alpha), generator=torch.Generator().manual_seed(0))
    direction, weight = torch.ones(WIDTH), 0.4  # a branch of that size for every token
    for residual in model.residuals():
        times = 1.0 if "output" in residual.placement.norms else weight
        residual.branch.forward = lambda x, *_, by=times: by * direction.expand_as(x)
    with watching(model) as seen:
        model(torch.randint(256, (4, 64), generator=torch.Generator().manual_seed(1)))
    each = (1.0 if "output" in placement(name).norms else weight) / alpha
    (found,) = seen
    assert found.weight == pytest.approx(2 * LAYERS * each, rel=1e-3)
    shared = 2 * LAYERS * each
    divided = math.cosh(shared) if name == "post-ln" else math.hypot(1, shared)
    own = 1 - found.cosine  # of unit vectors that share a direction the square of the own part
    assert own == pytest.approx(divided**-2, rel=0.5)  # tokens are alike at first, the stack short


def test_first_steps_are_taken_closely_and_a_warning_says_the_step_and_the_law():
    assert [s for s in range(70) if is_taken(s)] == [0, 1, 2, 4, 8, 16, 32, 48, 64]

    def warned(normed, *weights):
        steps = zip((0, 4), weights, strict=True)
        return warning([CommonMode(weight, 0.0, normed, step) for step, weight in steps])

    assert warned(True, 1.0, 5.0) == warned(False, 1.0, 90.0) == ""
    assert "at step 4" in warned(True, 1.0, 6.0) and "cosh(R) = 202" in warned(True, 1.0, 6.0)
    assert "sqrt(1 + R**2) = 120" in warned(False, 1.0, 120.0)
