"""A short training: the rule's model beside the plain one, at one rate."""

import json
import math
from dataclasses import replace

import pytest

from deepnet_theory.definitions.measurement import Run
from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.laboratory.transfer import causal, compared, plain, train

SMALL = {"steps": 6, "batch": 2, "tokens": 16}
TINY = {"steps": 3, "batch": 1, "tokens": 8}


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
    alone = train(constants(layers=1), **SMALL, seeds=1)
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
    broken = train(replace(constants(), eta=1e30), **SMALL, seeds=1)
    assert broken.verdict is Verdict.REFUTED
    assert "step" in broken.runs[0].finding and len(broken.runs[1].losses) == 6
    json.loads(broken.to_json())


def test_the_rival_has_no_constants(constants):
    c = plain(replace(constants(), eta=0.5))
    assert c.eta == 1 and c.placement == "post-ln"
    assert {(s.alpha, s.beta) for p in c.parts for s in p.sublayers} == {(1.0, 1.0)}
    masked = causal(constants("encoder", layers=1))
    assert masked.parts[0].causal
    plainly = replace(constants("encoder", layers=1), parts=masked.parts)
    found, expected = (train(c, **TINY, seeds=1) for c in (constants("encoder", layers=1), plainly))
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
        train(replace(constants(), **changes), **{**SMALL, **given})
    assert len(str(caught.value)) < 300


def test_a_vocabulary_fits_bytes(constants):
    with pytest.raises(InputError, match="256"):
        train(constants(vocab=255), **SMALL)


def test_an_encoder_decoder_continues_its_source(constants, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("to be or not to be " * 60, encoding="utf-8")
    found = train(constants("encoder-decoder", layers=1), **TINY, seeds=1, text=path)
    assert found.settings["corpus"] == str(path)
    assert [len(run.losses) for run in found.runs] == [3, 3]
