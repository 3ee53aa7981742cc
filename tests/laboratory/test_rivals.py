"""A rule beside wrong ones: what is refuted, with what power, and how many runs that takes."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory.cli import main
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.laboratory import training
from deepnet_theory.laboratory.optimum import ENOUGH, expected_power, power_of
from deepnet_theory.laboratory.runs import Ended
from deepnet_theory.laboratory.statistics import t_interval
from deepnet_theory.laboratory.training import Built
from deepnet_theory.laboratory.transfer import transfer_of
from deepnet_theory.sizes.rivals import WRONG as WRONG_RULES

RATES = [1e-3 * 2**i for i in range(5)]
PLACES = [{"N": 2}, {"N": 16}]
TINY = {"heads": 2, "tokens": 8, "batch": 2, "seeds": 2, "device": "cpu", "steps": 2}
TRAINED = []


@dataclass(frozen=True)
class Fake:
    """Losses of a best rate that is a power of the depth, a floor that rises, and noise."""

    name: str
    exponent: float = 0.0
    rise: float = 0.0
    noise: float = 0.01
    interrupted_at: int = 0  # layers
    steps: int = 1
    rho: str = ""
    is_constant = True

    def depends_on(self, place):
        return self if place["N"] > 2 else "the base"

    def train(self, place, rate, seed):
        if place["N"] == self.interrupted_at:
            raise KeyboardInterrupt
        TRAINED.append((self.name, place["N"], rate))
        grown, drawn = math.log(place["N"] / 2), [seed, place["N"], round(1e6 * rate)]
        x = math.log(rate / 4e-3) - self.exponent * grown
        noise = self.noise * np.random.default_rng(drawn).normal()
        return Ended(2.5 + 0.05 * seed + self.rise * grown + 0.2 * x**2 + noise, 3.2)


def found(rule, *rivals, seeds=6, rates=RATES):
    TRAINED.clear()
    beside = {one.name: one for one in rivals}
    asked = {}, {"seed": 0, "seeds": seeds}, {rule.name: rule}, PLACES, rates, "cpu", beside
    return transfer_of(*asked)


WRONG = Fake("a quarter", 0.25), Fake("an eighth", 0.125), Fake("lossy", rise=0.05)


def test_planted_wrong_rules_are_refuted_and_the_right_one_is_not():
    result = found(Fake("rule"), *WRONG, Fake("the same"))
    verdicts = {one.closure: str(one.verdict) for one in (*result.closures, *result.rivals)}
    refuted = dict.fromkeys((one.name for one in WRONG), "REFUTED")
    assert verdicts == {"rule": "SUPPORTED", **refuted, "the same": "SUPPORTED"}
    assert result.verdict is Verdict.SUPPORTED and result.exit_code == 0
    told = "the rule transfers, and 3 of 4 wrong rules were refuted here, at a power of "
    assert result.because == told + f"{result.power:.2f}" and result.power > ENOUGH
    lossy = result.rivals[2]
    assert lossy.gap.mean == pytest.approx(0.05 * math.log(8)) and lossy.exponents[0].constant
    assert f"SUPPORTED: {result.because}" in " ".join(str(result).split())


def test_a_test_that_could_not_have_told_is_undecided():
    for rivals in ([Fake("the same")], [Fake("the same"), Fake("another")]):
        result = found(Fake("rule"), *rivals)
        assert result.closures[0].verdict is Verdict.SUPPORTED
        assert result.verdict is Verdict.UNDECIDED and result.exit_code == 3
        assert result.because.startswith("this test could not have told: 0 of ")
    noisy = found(Fake("rule", noise=0.1), Fake("a quarter", 0.25, noise=0.1))
    assert noisy.verdict is Verdict.UNDECIDED and noisy.power < ENOUGH


def test_a_wrong_rule_in_the_place_of_the_rule_is_refuted():
    result = found(Fake("rule", 0.25), *WRONG)
    assert result.verdict is Verdict.REFUTED and "does not transfer" in result.because


def test_an_interrupt_leaves_what_is_finished_undecided():
    result = found(Fake("rule"), *WRONG[:2], Fake("lossy", rise=0.05, interrupted_at=16))
    assert result.exit_code == 130 and result.closures[0].verdict is Verdict.SUPPORTED
    assert [str(one.verdict) for one in result.rivals] == ["REFUTED", "REFUTED", "UNDECIDED"]
    assert result.rivals[2].gap is None and "UNDECIDED" in str(result)


def test_the_base_is_trained_once_and_must_be_bracketed():
    found(Fake("rule"), *WRONG, seeds=2)
    assert [run for run in TRAINED if run[1] == 2] == [("rule", 2, r) for r in RATES for _ in "ab"]
    result = found(Fake("rule"), *WRONG, rates=RATES[2:], seeds=2)  # the best is at an end
    assert result.verdict is Verdict.UNDECIDED and result.power == 0
    assert "ask for rates below 0.004" in result.closures[0].exponent.because


@settings(max_examples=10)
@given(st.floats(0.01, 0.1), st.integers(3, 12))
def test_the_power_is_the_share_of_planted_exponents_that_are_refuted(scatter, seeds):
    drawn = np.random.default_rng(0)
    shares = []
    for _ in range(400):
        interval = t_interval(1 / 8 + scatter * drawn.standard_normal(seeds))
        shares.append(interval.outside(-1 / 16, 1 / 16))
    # of intervals of their own width: the power is a mean over the scatter that is seen
    t = t_interval(np.arange(seeds)).high - np.mean(np.arange(seeds))
    half = t / np.std(np.arange(seeds), ddof=1) * scatter
    assert power_of(half, seeds) == pytest.approx(np.mean(shares), abs=0.08)
    assert power_of(half, 1) == power_of(math.inf, seeds) == 0


@pytest.mark.parametrize("widths", [None, [8, 16, 32]])
def test_a_plan_counts_the_runs_that_are_then_made_and_that_the_json_has(monkeypatch, widths):
    untrained = []

    def ended(self, place, rate, seed):
        untrained.append(self.name)
        return Ended(2.5 + 0.1 * math.log(rate / 4e-3) ** 2, 3.2)  # always the same best rate

    monkeypatch.setattr(Built, "train", ended)
    given = {**TINY, "rivals": True, "placement": "pre-ln", "widths": widths}
    plan = dt.transfer("adam", [1, 4], RATES, plan=True, **given)
    assert not untrained and getattr(plan, "exit_code", 0) == 0
    data = json.loads(dt.transfer("adam", [1, 4], RATES, processes=1, **given).to_json())
    assert {name: untrained.count(name) for name in plan.runs} == plan.runs
    assert json.loads(plan.to_json())["runs"] == plan.runs
    assert f"these are {sum(plan.runs.values())} runs" in " ".join(str(plan).split())
    places = [{"N": n} | ({"d": d} if widths else {}) for n in (1, 4) for d in widths or [0]]
    few, enough = (expected_power(places, RATES, plan.needed - i) for i in (1, 0))
    assert few < ENOUGH <= enough < expected_power(places, RATES[::2], plan.needed)
    assert ["the rule", *(one["name"] for one in data["rivals"])] == [*plan.runs]
    assert data["left_out"] == [*plan.left_out] and not {*plan.runs} & {*plan.left_out}
    assert ("hidden rates times d^(1/2)" in plan.runs) == bool(widths)
    assert {"β² for β", "κ times N^(1/4)", "no κ", "standard sizes"} <= {*plan.runs}
    for one in data["rivals"]:
        assert {"name", "exponent", "low", "high", "loss_gap", "verdict"} <= one.keys()
    assert data["verdict"] == "UNDECIDED" and data["because"].startswith("it is undecided")
    assert 0 <= data["power"] <= 1


# ---- a model of your own ----

OWN = {"widths": [8, 128], "optimizer": "adamw", "steps": 1, "seeds": 1, "rivals": True}
HIDDEN, EMBEDDING = "h.0.mlp.c_fc.weight", "wte.weight"


def tiny(depth, width):
    return GPT(depth, d=width)


def test_wrong_rules_are_put_into_a_model_of_your_own(monkeypatch):
    stepped = {}

    def seen(made, step, updates, eta, seed, watched):
        of = made.module
        optimizer, lr = step.optimizer(of)
        rates = {id(p): g["lr"] / lr for g in optimizer.param_groups for p in g["params"]}
        each = {n: (float(p.detach().std()), rates[id(p)]) for n, p in of.named_parameters()}
        stepped.setdefault(of.ln_f.weight.numel(), []).append(each)
        return Ended(2.5 + 0.1 * math.log(eta / 4e-3) ** 2, 3.2)

    monkeypatch.setattr(training, "follow", seen)
    found = dt.transfer(tiny, [1], RATES[:3], cache=None, **OWN)
    names = [one.closure for one in (*found.closures, *found.rivals)]
    assert all(one == stepped[8][0] for one in stepped[8])  # the same at the smallest size
    wide = dict(zip(names, stepped[128][:: len(RATES[:3])], strict=True))
    base, rule = stepped[8][0], wide["the rule"]

    def rate(name, parameter):
        return wide[name][parameter][1] / base[parameter][1]

    assert rate("the rule", HIDDEN) == pytest.approx(1 / 16) and rule != base
    assert rate("hidden rates times d^(1/2)", HIDDEN) == pytest.approx(1 / 4)
    assert rate("one rate for all roles", HIDDEN) == pytest.approx(1)
    assert rate("hidden rates times d^(1/2)", EMBEDDING) == rate("the rule", EMBEDDING)
    # with such a head the loss starts too high for apply_, which refuses it
    assert wide["standard sizes"]["lm_head.weight"][0] > 3 * rule["lm_head.weight"][0]
    assert wide["standard sizes"][HIDDEN][0] > 1.2 * rule[HIDDEN][0]
    assert {*names, *found.of["left_out"]} >= {*WRONG_RULES, "the rule of sgd", "alignment none"}
    plan = dt.transfer(tiny, [1], RATES[:3], plan=True, **OWN)
    assert [*plan.runs] == names and sum(plan.runs.values()) == sum(map(len, stepped.values()))


def test_the_command_tells_the_rivals_of_a_model_of_your_own(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "from written_models import GPT\n\ndef make(depth):\n    return GPT(depth, d=16)\n"
    )
    words = f"transfer {file}:make --optimizer adamw --depths 1,2 --rates 2e-3,8e-3,3e-2 --steps 1"
    words += " --seeds 1 --rivals --no-cache --format json"
    assert main(words.split()) == 3  # one step tells nothing
    told = json.loads(capsys.readouterr().out)
    assert told["power"] == 0 and told["verdict"] == "UNDECIDED" and told["optimizer"] == "adamw"
    assert {"no κ", "β² for β"} <= {one["name"] for one in told["rivals"]}
