"""Loss against learning rate at tiny sizes, one short training, and what is refused before any."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.definitions.measurement import Run
from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.laboratory.optimum import wanted_rates
from deepnet_theory.laboratory.runs import Ended
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.text import entropy
from deepnet_theory.laboratory.training import Built, Course, begun
from deepnet_theory.laboratory.transfer import causal, compared, plain, train, train_all
from deepnet_theory.laboratory.trial import generator_for

TINY = {"width": 16, "heads": 2, "tokens": 8, "batch": 2, "seeds": 2, "device": "cpu"}
SMALL = {"steps": 3, **TINY}
RATES = (1e-3, 1e-2, 1e-1)


def exported(depth=3, closure="symmetric", **given):
    selection = dt.Selection(optimizer="adam", closure=closure)
    return causal(dt.export(selection, depth, **{"width": 16, "heads": 2, **given}))


def course(steps=3, **given):
    return Course(optimizer("adam"), Settings(**{**TINY, **given}), steps)


def run(c, rate, course, seed=0):
    return Built("own", {"2": c}, course).train({"N": 2}, rate, seed)


def by_hand(c, own, rate, seed, steps, batch):
    """The validation loss of torch's own Adam on an ordinary model."""
    corpus, model = own.corpus(), begun(c, own, seed)
    library = torch.optim.Adam(parameter_groups(model, rate), lr=rate)

    def loss(windows):
        logits = model(windows.tokens).flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, windows.targets.flatten())

    for step in range(steps):
        library.zero_grad()
        loss(corpus.batch(batch, generator_for(seed, f"batch {step}"))).backward()
        library.step()
    with torch.no_grad():
        return fmean(float(loss(windows)) for windows in own.validation())


ONE = {"closures": "complete"}
FORMS = {  # what is varied; and of each curve the place, the steps, the batch and a factor
    "N": ({"depths": [1, 2], "steps": 3}, [({"N": n}, 3, 2, 1) for n in (1, 2)]),
    "d": ({"widths": [8, 16, 32], "steps": 3}, [({"N": 2, "d": d}, 3, 2, 1) for d in (8, 16, 32)]),
    "B": (  # a quarter of the steps with four times the windows, and √4 is Adam's factor
        {"batches": [2, 8], "steps": 8, **ONE},
        [({"N": 2, "B": 2}, 8, 2, 1), ({"N": 2, "B": 8}, 2, 8, 2)],
    ),
    "T": ({"steps": "2,3,5", **ONE}, [({"N": 2, "T": t}, t, 2, 1) for t in (2, 3, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("symbol", FORMS)
def test_every_curve_is_what_torchs_own_loop_gives(symbol):
    asked, expected = FORMS[symbol]
    named = {"d": "width", "B": "batch", "T": "steps"}.get(symbol)
    given = {name: value for name, value in TINY.items() if name != named}
    result = dt.transfer("adam", rates=RATES, **{"depths": [2], **given, **asked})
    data = json.loads(result.to_json())
    assert data["schema"] == "deepnet-theory/transfer/1" and data["complete"]
    assert "rivals" not in data and result.exit_code == result.closures[0].verdict.exit_code
    if named:
        assert data["measure"][named] == [place[symbol] for place, *_ in expected]
    else:
        assert "<svg" in dt.plot(result).svg and "transfer" in result._repr_html_()
        assert [c["rho"] for c in data["closures"]] == ["1", "(2*N)**(1/2)"]
    # what is recommended and what derive shows; or relative to the smallest width, and standard
    names = {"N": ["complete", "symmetric"], "d": ["rule", "sp"]}.get(symbol, ["complete"])
    assert [c["closure"] for c in data["closures"]] == names
    for closure, told in zip(result.closures, data["closures"], strict=True):
        assert [e["in"] for e in told["exponents"]] == [symbol]
        assert told["exponent"] == told["exponents"][0]
        assert {e["in"] for e in told["signal"]} <= {"T"}
        base = {"base": 8, "base_heads": 2} if closure.closure == "rule" else {}
        each = zip(closure.curves, told["curves"], expected, strict=True)
        for curve, of, (place, steps, batch, factor) in each:
            assert of["depth"] == place and of["rates"] == list(RATES)
            assert len(of["common_mode"]) == len(of["token_cosine"]) == len(of["losses"]) == 3
            assert min(of["common_mode"]) > 0 and {"best", "low", "high", "first_failing"} <= {*of}
            of_closure = None if symbol == "d" else closure.closure
            c = exported(place["N"], of_closure, width=place.get("d", 16), **base)
            loss = by_hand(c, course(), factor * RATES[1], 1, steps, batch)
            assert curve.values[1][1] == pytest.approx(loss, rel=1e-4)


def test_a_seed_begins_alike_at_every_depth():
    shallow, deep, other = (begun(exported(n), course(), s) for n, s in ((3, 0), (6, 0), (3, 1)))
    assert torch.equal(shallow.embed.weight, deep.embed.weight)
    assert torch.equal(shallow.head.weight, deep.head.weight)
    assert not torch.equal(shallow.head.weight, other.head.weight)


def test_a_run_that_diverges_has_no_loss():
    whole = run(exported(), 1e-2, course(steps=4))
    assert len(whole.losses) == 4 and [one.step for one in whole.taken] == [0, 1, 2]
    broken = run(exported(), 1e30, course(steps=6))
    assert math.isnan(broken.value) and len(broken.losses) < 6 and "at step" in broken.why
    assert len(broken.taken) <= len(broken.losses)


def test_finished_runs_are_not_trained_again_and_an_interrupt_keeps_them(monkeypatch, tmp_path):
    trained, train = [], Built.train

    def counted(self, place, rate, seed) -> Ended:
        if place == {"N": 5}:
            raise KeyboardInterrupt
        trained.append(rate)
        return train(self, place, rate, seed)

    monkeypatch.setattr(Built, "train", counted)
    given = {**SMALL, "cache": tmp_path / "cache"}
    dt.transfer("adam", [2], RATES, ["symmetric"], **given)
    trained.clear()
    again = dt.transfer("adam", [2, 4], RATES, ["symmetric"], **given)
    assert sorted(trained) == sorted([*RATES] * 2)  # the other depth
    whole = dt.transfer("adam", [2, 4], RATES, ["symmetric"], **SMALL)
    assert json.loads(again.to_json())["closures"] == json.loads(whole.to_json())["closures"]
    result = dt.transfer("adam", [2, 5], RATES, ["symmetric"], **SMALL)
    assert result.exit_code == 130 and not json.loads(result.to_json())["complete"]
    shallow, deep = result.closures[0].curves
    assert len(shallow.rates) == 3 and not deep.rates and "0 of 3" in deep.finding


def test_among_the_rivals_over_batches_are_rates_without_the_factor():
    given = {name: TINY[name] for name in ("width", "heads", "tokens", "seeds", "device")}
    plan = dt.transfer("adam", [2], RATES, batches=[2, 8], steps=8, rivals=True, plan=True, **given)
    assert {"one rate for all roles", "the rule of sgd"} <= {*plan.runs}


def test_a_model_that_ignores_its_input_never_beats_the_baseline():
    """The best of them, which knows the windows' own frequencies, is at the baseline."""
    own = course()
    targets = torch.stack([b.targets for b in own.validation()])
    counts = torch.bincount(targets.flatten(), minlength=256).double()
    logits = (counts / counts.sum()).clamp(min=1e-300).log()
    least = torch.nn.functional.cross_entropy(logits.expand(targets.numel(), -1), targets.flatten())
    result = dt.transfer("adam", [2], RATES, ["symmetric"], **SMALL)
    assert float(least) == pytest.approx(result.baseline, rel=1e-6)
    assert result.baseline < entropy(own.corpus().train)  # a collapsed model passes


def test_a_relative_text_is_found_from_another_folder_and_other_text_trained_on(
    tmp_path, monkeypatch, elsewhere
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    given = {**SMALL, "text": "own.txt", "executor": elsewhere}
    found = []
    for content in ("abcd" * 500, "dcba" * 500, "abcd" * 500):
        (tmp_path / "here" / "own.txt").write_text(content)
        result = dt.transfer("adam", [2], RATES, ["symmetric"], **given, cache=tmp_path / "cache")
        found.append(result.closures[0].curves[0].values)
    assert found[0] == found[2] != found[1]
    assert result.closures[0].curves[0].rates == RATES and not result.stopped


@given(st.integers(1, 99), st.integers(3, 5000), st.integers(3, 20))
def test_a_range_of_rates_has_equal_ratios(first, times, number):
    low, high = first * 1e-5, first * times * 1e-5
    for found in (wanted_rates(f"{low}:{high}"), wanted_rates(f"{low}:{high}:{number}")):
        assert (found[0], found[-1]) == pytest.approx((low, high), rel=1e-4)
        ratios = [b / a for a, b in pairwise(found)]
        assert max(ratios) < 1.001 * min(ratios)
    assert len(found) == number


def test_rates_are_a_list_or_a_range():
    assert wanted_rates("1e-2,1e-3,0.1") == (1e-3, 1e-2, 0.1)
    for wrong in ("", "1e-3:", "1:1", "-1", "a", "1e-2:1e-3", "nan", "inf", "1e-3:1:x",
                  "0:1:3", "-1:1:3"):  # fmt: skip
        with pytest.raises(InputError, match="rates"):
            wanted_rates(wrong)


def test_long_trainings_share_the_cores_and_short_ones_do_not(monkeypatch):
    """Long is what takes many steps of many layers, however few runs there are."""
    asked = []

    def run(jobs, cost, **work):
        asked.append(work["processes"])
        return ""

    monkeypatch.setattr("deepnet_theory.laboratory.transfer.run_jobs", run)
    monkeypatch.setattr("deepnet_theory.laboratory.transfer.cores", lambda: 7)
    models = {"2": exported(2), "32": exported(32)}
    for steps in (50, 1):
        trainers = {"own": Built("own", models, course(steps=steps))}
        train_all(trainers, [{"N": 2}, {"N": 32}], RATES, range(5), {"processes": None})
    assert asked == [7, 1]


# ---- a short training beside the plain model ----

SHORT = {"steps": 6, "batch": 2, "tokens": 16}
SHORTEST = {"steps": 3, "batch": 1, "tokens": 8}


def test_the_verdict_compares_with_the_plain_model_seed_by_seed(constants):
    result = train(constants(layers=1), steps=10, batch=2, tokens=16, lr=3e-3, seeds=3)
    data = json.loads(result.to_json())
    assert data["schema"] == "deepnet-theory/training/1"
    assert [len(r["losses"]) for r in data["runs"]] == [10, 10]
    assert data["baseline"] == result.baseline and data["verdict"] == result.verdict.value
    own, rival = result.runs
    assert len(own.held_out_by_seed) == 3 and own.rule == "post-ln, the constants' rule"
    assert f"{abs(own.held_out - rival.held_out):.3f}" in result.because
    assert rival.rule in result.because and result.exit_code == 0
    assert own.common_mode_steps == (0, 1, 2, 4, 8) and len(own.common_mode) == 5
    # one seed has no interval, and so no verdict
    alone = train(constants(layers=1), **SHORT, seeds=1)
    assert alone.verdict is Verdict.UNDECIDED and "one seed" in alone.because
    assert json.loads(alone.to_json())


def curve(rule, *held_out, **given):
    """A run whose seeds have these validation losses."""
    return Run(rule, {"N": 1}, (1.0,), held_out, **given)


OWN, NAN = (3.27, 3.27, 3.28), {"finding": "a loss was not finite at step 3"}


@pytest.mark.parametrize(
    ("own", "given", "rival", "verdict", "because"),
    [
        # below the unigram entropy, and no support: the plain model is better
        ((3.2, 3.2, 3.21), {}, (3.09, 3.10, 3.09), Verdict.REFUTED, "0.110 nats higher than plain"),
        (OWN, {}, (3.33, 3.34, 3.33), Verdict.SUPPORTED, "0.060 nats lower than plain"),  # above it
        # a difference that another seed turns round is none
        (OWN, {}, (3.2, 3.4, 3.3), Verdict.UNDECIDED, "difference -0."),
        # the pairing: what the seeds share does not blur the difference
        ((3.0, 3.5, 4.0), {}, (3.11, 3.6, 4.1), Verdict.SUPPORTED, "lower"),
        # a rival that stops being finite is beaten, and the rule that does is refuted
        (OWN, {}, NAN, Verdict.SUPPORTED, "plain: a loss was not finite"),
        (OWN, NAN, OWN, Verdict.REFUTED, "own: a loss was not finite"),
    ],
)
def test_each_verdict_of_the_law(own, given, rival, verdict, because):
    plainly = curve("plain", **rival) if rival is NAN else curve("plain", *rival)
    found, told = compared(curve("own", *own, **given), plainly, 3.237)
    assert found is verdict and because in told


def test_a_loss_that_is_not_finite_is_a_finding(constants):
    broken = train(replace(constants(), eta=1e30), **SHORT, seeds=1)
    assert broken.verdict is Verdict.REFUTED
    assert "step" in broken.runs[0].finding and len(broken.runs[1].losses) == 6
    json.loads(broken.to_json())


def test_the_rival_has_no_constants(constants):
    c = plain(replace(constants(), eta=0.5))
    assert c.eta == 1 and c.placement == "post-ln"
    assert {(s.alpha, s.beta) for p in c.parts for s in p.sublayers} == {(1.0, 1.0)}
    seeing = constants("encoder", layers=1)
    masked = replace(seeing, parts=causal(seeing).parts)
    assert masked.parts[0].causal and not seeing.parts[0].causal
    found, expected = (train(one, **SHORTEST, seeds=1) for one in (seeing, masked))
    assert found.runs[0].losses == expected.runs[0].losses


@pytest.mark.parametrize(
    ("changes", "given", "said"),
    [
        ({"optimizer": "custom", "update": "-eta*norm(theta)*sign(g)"}, {}, "norm.*adafactor"),
        ({"optimizer": "x"}, {}, "'x'.*adafactor"),
        ({}, {"steps": 10**23}, "steps"),
        ({}, {"batch": 0}, "batch"),
        ({}, {"lr": math.nan}, "lr"),
        ({}, {"seed": -1}, "seed"),
        ({}, {"seeds": True}, "seeds"),
    ],
)
def test_a_training_that_cannot_be_run_is_one_sentence(constants, changes, given, said):
    with pytest.raises(Refusal if changes else InputError, match=said) as caught:
        train(replace(constants(), **changes), **{**SHORT, **given})
    assert len(str(caught.value)) < 300


def test_a_vocabulary_fits_bytes(constants):
    with pytest.raises(InputError, match="256"):
        train(constants(vocab=255), **SHORT)


def test_an_encoder_decoder_continues_its_source(constants, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("to be or not to be " * 60, encoding="utf-8")
    found = train(constants("encoder-decoder", layers=1), **SHORTEST, seeds=1, text=path)
    assert found.settings["corpus"] == str(path)
    assert [len(run.losses) for run in found.runs] == [3, 3]


PAIR = dt.Selection(optimizer="adam", stack="encoder-decoder")


def tiny(depth, width):
    return GPT(depth, d=width)


def of_two_stacks(depth, width):
    return torch.nn.Transformer(width, 2, depth, depth, 4 * width, 0.0)


def own_loop(depth, lr):
    return (lambda: None), (lambda: lr)


RIVALS = {"rivals": True}
OWN = {**RIVALS, "widths": [8, 128], "optimizer": "adamw"}
REFUSED = [  # what a command says is in tests/outputs/refused_transfers.txt
    ("shampoo", {"progress": None}, "first step alone"),
    ("adam", {"optimizer": "adam"}, "optimizer is given twice"),
    ("adam", {"data": "gaussian:0.5"}, "nothing to learn"),
    ("adam", {"draws": 2}, "draws"),
    ("adam", {"updates": 2}, "updates"),
    ("adam", {"steps": 0}, "steps"),
    (own_loop, RIVALS, "and no optimizer by its name"),
    (tiny, {**OWN, "optimizer": torch.optim.AdamW}, "a factory of models and an optimizer, such"),
    (tiny, {**OWN, "rivals": False, "plan": True}, "plan was given without rivals"),
    (tiny, {**OWN, "widths": [8]}, "given for one size, where all rules are one"),
    (of_two_stacks, OWN, "is of encoder and decoder: rivals take one stack"),
    *(
        (own_loop, {name: value}, f"{name} was given with .*, which has its own")
        for name, value in (
            ("closures", ["complete"]), ("text", "t"), ("width", 64), ("dtype", "x"),
        )
    ),
    (own_loop, {"depths": None}, "give depths, such as 6,12,24, or widths"),
    (own_loop, {"seeds": 0}, "seeds 0"),
    (own_loop, {"steps": 0}, "steps '0'"),
    (own_loop, {"rates": "1"}, "give 3 or more"),
]  # fmt: skip


@pytest.mark.parametrize(("subject", "given", "said"), REFUSED)
def test_what_is_wrong_is_said_before_any_work(subject, given, said):
    def working(*_):
        raise AssertionError("a model was trained")

    asked = {"depths": [2], "rates": [1e-3, 2e-3, 4e-3], "progress": working, **given}
    with pytest.raises(Refusal if subject == "shampoo" else InputError, match=said) as refused:
        dt.transfer(subject, **asked)
    assert refused.value.exit_code == (4 if subject == "shampoo" else 2)
    assert "\n" not in str(refused.value)
