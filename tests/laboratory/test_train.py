"""A short training: the rule's model beside the plain one, at one rate."""

import json
import math
import os
from dataclasses import replace

import pytest

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import INTERRUPTION, InputError, Refusal, Verdict
from deepnet_theory.definitions.training import Run
from deepnet_theory.laboratory import transfer
from deepnet_theory.laboratory.transfer import causal, compared, plain, train
from deepnet_theory.processes import Cache

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
    mean = sum(held_out) / len(held_out) if held_out else None
    return Run(rule, "post-ln", (1.0,), mean, held_out_by_seed=held_out, **given)


OWN, NAN = (3.27, 3.27, 3.28), {"finding": "a loss was not finite at step 3"}


@pytest.mark.parametrize(
    ("own", "given", "rival", "verdict", "because"),
    [
        # below the unigram entropy, and no support: the plain model is better
        ((3.2, 3.2, 3.21), {}, (3.09, 3.10, 3.09), Verdict.REFUTED, "0.110 above plain"),
        (OWN, {}, (3.33, 3.34, 3.33), Verdict.SUPPORTED, "0.060 below plain"),  # above it
        # a difference that another seed turns round is none
        (OWN, {}, (3.2, 3.4, 3.3), Verdict.UNDECIDED, "try "),
        # the pairing: what the seeds share does not blur the difference
        ((3.0, 3.5, 4.0), {}, (3.11, 3.6, 4.1), Verdict.SUPPORTED, "below"),
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


def test_the_constants_own_optimizer_steps(constants):
    """By its expression, or by its library where it has no other second step, as Lion."""
    pytest.importorskip("pytorch_optimizer")
    losses = {}
    for name in ("sgd", "momentum", "adam", "lamb", "lion"):
        result = train(constants(layers=1, optimizer=name), **TINY, seeds=1, lr=0.01)
        assert result.conditions["optimizer"] == f"{name}, no warm-up"
        losses[name] = result.runs[0].losses
    # the first loss is the model's alone; the second shows who stepped
    assert len({curve[0] for curve in losses.values()}) == 1
    assert losses["adam"][1] != losses["sgd"][1] != losses["lamb"][1] != losses["lion"][1]
    # the first step of each is its expression, and the second of SGD with momentum is not SGD's
    assert losses["momentum"][1] == losses["sgd"][1] and losses["momentum"][2] != losses["sgd"][2]


def test_an_optimizer_that_is_not_known_is_refused(constants):
    own = replace(constants(optimizer="custom"), update="-eta*norm(theta)*sign(g)")
    for c, said in (own, "norm"), (constants(optimizer="x"), "'x'"):
        with pytest.raises(Refusal, match=said) as raised:
            train(c, **SMALL)
        assert "adafactor" in str(raised.value)


def test_the_rival_has_no_constants(constants):
    c = plain(replace(constants(), eta=0.5))
    assert c.eta == 1 and c.placement == "post-ln"
    assert {(s.alpha, s.beta) for p in c.parts for s in p.sublayers} == {(1.0, 1.0)}
    masked = causal(constants("encoder", layers=1))
    assert masked.parts[0].causal
    plainly = replace(constants("encoder", layers=1), parts=masked.parts)
    found, expected = (train(c, **TINY, seeds=1) for c in (constants("encoder", layers=1), plainly))
    assert found.runs[0].losses == expected.runs[0].losses


def test_a_training_that_was_stopped_goes_on_from_finished_runs(constants, tmp_path):
    c, asked, cache = constants(layers=1, dropout=0.2), {**SMALL, "seeds": 1}, Cache(tmp_path)
    whole = train(c, **asked)
    assert train(c, **asked).runs == whole.runs  # dropout is the same

    def stop(done, total, what):
        if done:
            raise KeyboardInterrupt

    part = train(c, **asked, cache=cache, progress=stop)
    assert part.exit_code == 130 and json.loads(part.to_json())["complete"] is False
    assert part.verdict is Verdict.UNDECIDED and "1 of 2 runs were finished" in part.because
    assert part.runs[0] == whole.runs[0] and not part.runs[1].losses
    assert train(c, **asked, cache=cache).runs == whole.runs and cache.taken == 1


def test_another_text_of_the_same_name_is_learnt_anew(constants, tmp_path):
    text, c, cache = tmp_path / "text", constants(layers=1), Cache(tmp_path / "cache")
    seen = []
    for content in ("to be or not to be ", "TO BE, OR NOT TO BE "):
        text.write_text(content * 60)
        seen.append(train(c, **TINY, seeds=1, text=text, cache=cache).runs)
        assert seen[-1] == train(c, **TINY, seeds=1, text=text).runs
    assert seen[0] != seen[1] and not cache.taken


NAMES = ("steps", "batch", "tokens", "seeds", "lr", "seed", "device")
BAD = [
    *((name, bad) for name in NAMES[:4] for bad in (0, True, "8")),
    ("steps", 10**23),
    *(("lr", bad) for bad in (0.0, math.nan, math.inf, "1", 10**5000)),
    *(("seed", bad) for bad in (-1, 10**5000, 0.5)),
    *(("device", bad) for bad in ("tpu", 5)),
]


@pytest.mark.parametrize(("name", "bad"), BAD, ids=lambda value: value if value in NAMES else "")
def test_settings_that_cannot_be_run_are_one_sentence(constants, name, bad):
    with pytest.raises(InputError, match=name) as caught:
        train(constants(), **{**SMALL, name: bad})
    assert len(str(caught.value)) < 300


@pytest.mark.skipif(os.name == "nt", reason="there are no named pipes")
def test_a_pipe_is_not_waited_for_and_a_vocabulary_fits_bytes(constants, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for c, text, says in (
        (constants(), tmp_path / "pipe", "has 0 bytes"),
        (constants(vocab=255), None, "256"),
    ):
        with pytest.raises(InputError, match=says):
            train(c, **SMALL, text=text)


def test_an_encoder_decoder_continues_its_source(constants, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("to be or not to be " * 60, encoding="utf-8")
    found = train(constants("encoder-decoder", layers=1), **TINY, seeds=1, text=path)
    assert found.conditions["corpus"] == str(path)
    assert [len(run.losses) for run in found.runs] == [3, 3]


def test_what_ends_a_training_before_its_first_run_is_said(monkeypatch):
    constants = dt.export("adam", 1, width=8, heads=2)
    for why, error, says in (
        (INTERRUPTION, KeyboardInterrupt, ""),
        ("memory ran out", InputError, "memory ran out: fewer seeds, tokens"),
    ):
        monkeypatch.setattr(transfer, "run_until_stopped", lambda *_, why=why, **__: why)
        with pytest.raises(error, match=says):
            dt.train(constants, steps=1)
