"""The training loop: what is learnt, what is reported, resuming, interruption."""

import json
import math
import os
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import (
    INTERRUPTION,
    InputError,
    MissingExtraError,
    Refusal,
    Verdict,
)
from deepnet_theory.definitions.training import Run
from deepnet_theory.laboratory import runs
from deepnet_theory.laboratory.runs import (
    Text,
    causal,
    compare,
    entropy,
    gpt_2,
    judge,
    plain,
    train,
)
from deepnet_theory.processes import Cache

SMALL = {"steps": 6, "batch": 2, "tokens": 16}
TINY = {"steps": 3, "batch": 1, "tokens": 8}


def test_the_verdict_compares_with_the_rivals_seed_by_seed(constants):
    result = train(constants(layers=1), steps=10, batch=2, tokens=16, lr=3e-3, seeds=3)
    data = json.loads(result.to_json())
    assert data["schema"] == "deepnet-theory/training/1"
    assert [len(r["losses"]) for r in data["runs"]] == [10] * 4
    assert [r["placement"] for r in data["runs"]] == ["post-ln", "post-ln", "pre-ln", "pre-ln"]
    assert data["baseline"] == result.baseline and data["verdict"] == result.verdict.value
    own, *rivals = result.runs
    for rival, found in zip(rivals, data["comparisons"], strict=True):
        assert found["rival"] == rival.rule
        told = result.verdict is not Verdict.REFUTED or found["low"] > 0  # else who is better
        assert (found["rival"] in result.because) == told
        assert found["difference"] == pytest.approx(own.held_out - rival.held_out)
        assert found["low"] < found["difference"] < found["high"]
    # one seed has no interval, and so no verdict
    alone = train(constants(layers=1), **SMALL, seeds=1)
    assert alone.verdict is Verdict.UNDECIDED and "one seed" in alone.because
    assert alone.comparisons[0].low is None and json.loads(alone.to_json())


def curve(rule, *held_out, **given):
    """A run whose seeds have these held-out losses."""
    mean = sum(held_out) / len(held_out) if held_out else None
    return Run(rule, "post-ln", (1.0,), mean, held_out_by_seed=held_out, **given)


OWN, POST, PRE = (3.27, 3.27, 3.28), (3.33, 3.34, 3.33), (3.48, 3.50, 3.49)
NAN = {"finding": "the loss was nan at step 3"}
READS, BLIND = ({"shuffled": 4.0, "reads_source": reads} for reads in (True, False))


@pytest.mark.parametrize(
    ("own", "given", "post", "pre", "verdict", "because"),
    [
        # below the unigram entropy, and no support: a plain rival is better
        ((3.235, 3.236, 3.237), {}, (3.30, 3.31, 3.30), (3.09, 3.10, 3.09), Verdict.REFUTED,
         "pre is better: held-out loss 3.236, 0.143 above pre"),
        (OWN, {}, POST, PRE, Verdict.SUPPORTED, "better than its rivals"),  # above it, all the same
        # a difference that another seed turns round is none
        (OWN, {}, POST, (3.2, 3.4, 3.3), Verdict.UNDECIDED, "not distinguished from pre"),
        # the pairing: what the seeds share does not blur the difference
        ((3.0, 3.5, 4.0), {}, (3.11, 3.6, 4.1), (3.1, 3.61, 4.1), Verdict.SUPPORTED, "below"),
        # a rival that stops being finite is beaten, and the rule that does is refuted
        (OWN, {}, NAN, PRE, Verdict.SUPPORTED, "post: the loss was nan"),
        (OWN, NAN, POST, PRE, Verdict.REFUTED, "own: the loss was nan"),
        (OWN, {"held_out": None}, POST, PRE, Verdict.UNDECIDED, "stopped after 1 steps"),
        # an encoder–decoder that is only a language model of its targets has shown nothing
        (OWN, READS, POST, PRE, Verdict.SUPPORTED, "4.000 with another's source"),
        (OWN, BLIND, POST, PRE, Verdict.UNDECIDED, "does not read its source"),
    ],
)  # fmt: skip
def test_each_verdict_of_the_law(own, given, post, pre, verdict, because):
    runs = [replace(curve("own", *own), **given)]
    for rule, losses in (("post", post), ("pre", pre)):
        runs.append(curve(rule, **losses) if losses is NAN else curve(rule, *losses))
    found, told = judge(runs, [compare(runs[0], rival) for rival in runs[1:]], 3.237)
    assert found is verdict and because in told


def test_a_loss_that_is_not_finite_is_a_finding(constants):
    broken = train(replace(constants(), eta=1e30), **SMALL, seeds=1)
    assert broken.verdict is Verdict.REFUTED
    assert "step" in broken.runs[0].finding and len(broken.runs[1].losses) == 6
    json.loads(broken.to_json())


def test_the_constants_own_optimizer_steps(constants):
    pytest.importorskip("pytorch_optimizer")
    losses = {}
    for name, target in (
        ("sgd", "torch.optim:SGD"), ("momentum", "torch.optim:SGD"), ("adam", "torch.optim:Adam"),
        ("lamb", "pytorch_optimizer:Lamb"), ("lion", "pytorch_optimizer:Lion"),
    ):  # fmt: skip
        result = train(constants(layers=1, optimizer=name), **TINY, seeds=1, lr=0.01)
        assert result.conditions["optimizer"] == f"{target}, no warm-up"
        losses[name] = result.runs[0].losses
    # the first loss is the model's alone; the second shows who stepped
    assert len({curve[0] for curve in losses.values()}) == 1
    assert losses["adam"][1] != losses["sgd"][1] != losses["lamb"][1] != losses["lion"][1]
    # the first step of each is its expression, and the second of SGD with momentum is not SGD's
    assert losses["momentum"][1] == losses["sgd"][1] and losses["momentum"][2] != losses["sgd"][2]


def test_an_optimizer_that_no_library_has_is_refused(constants, monkeypatch):
    own = replace(constants(optimizer="custom"), update="-eta*norm(theta)*sign(g)")
    for c, said in (
        (own, "norm"),
        (constants(optimizer="muon"), "'muon'"),
        (constants(optimizer="x"), "'x'"),
    ):
        with pytest.raises(Refusal, match=said) as raised:
            train(c, **SMALL)
        assert "valid are: adafactor" in str(raised.value)
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    with pytest.raises(MissingExtraError, match="verify"):
        train(constants(optimizer="lamb"), **SMALL)


def test_the_rivals_have_no_constants_but_gpt_2s_last_matrices(constants):
    c = plain(replace(constants(), eta=0.5), "pre-ln")
    assert c.eta == 1 and c.placement == "pre-ln"
    assert {(s.alpha, s.beta) for p in c.parts for s in p.sublayers} == {(1.0, 1.0)}
    c = gpt_2(constants("encoder-decoder"))
    encoder, decoder = c.parts
    assert [s.gains for s in encoder.sublayers] == [{"output": 8**-0.5}, {"fc2": 8**-0.5}]
    assert decoder.sublayers[1].gains == {"output": pytest.approx(12**-0.5)}
    assert c.placement == "pre-ln" and {s.beta for p in c.parts for s in p.sublayers} == {1.0}
    masked = causal(constants("encoder", layers=1))
    assert masked.parts[0].causal
    plainly = replace(constants("encoder", layers=1), parts=masked.parts)
    found, expected = (train(c, **TINY, seeds=1) for c in (constants("encoder", layers=1), plainly))
    assert found.runs[0].losses == expected.runs[0].losses


def test_a_training_that_was_stopped_goes_on_from_finished_runs(constants, tmp_path):
    c, asked, cache = constants(layers=1, dropout=0.2), {**SMALL, "seeds": 2}, Cache(tmp_path)
    whole = train(c, **asked)

    def stop(done, total, what):
        assert total == 2 * 4 * SMALL["steps"]
        if done == 6.5 * SMALL["steps"]:  # in the third run of the second seed
            raise KeyboardInterrupt

    def at_once(done, total, what):
        if done == 9:  # within the second run
            raise KeyboardInterrupt

    first = train(c, **SMALL, progress=at_once)
    assert [len(r.losses) for r in first.runs] == [6, 0, 0, 0]
    assert first.exit_code == 130 and "1 of 12 runs were finished" in first.because
    assert json.loads(first.to_json())["complete"] is False
    part = train(c, **asked, cache=cache, progress=stop)
    assert not part.complete and part.exit_code == 130
    assert part.verdict is Verdict.UNDECIDED and "6 of 8 runs were finished" in part.because
    assert [r.held_out_by_seed for r in part.runs] == [r.held_out_by_seed[:1] for r in whole.runs]
    told = []
    resumed = train(c, **asked, cache=cache, progress=lambda *step: told.append(step))
    assert resumed.runs == whole.runs and len(told) == 2 * SMALL["steps"]
    told.clear()
    again = train(c, **asked, cache=cache, progress=lambda *step: told.append(step))
    assert again.runs == whole.runs and not told


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


def test_an_encoder_decoder_is_asked_whether_it_reads_its_source(constants, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("to be or not to be " * 60, encoding="utf-8")
    found = train(constants("encoder-decoder", layers=1), **TINY, seeds=1, text=path)
    own = found.runs[0]
    assert found.conditions["corpus"] == str(path)
    assert own.shuffled is not None and own.reads_source is not None
    assert f"{own.shuffled:.3f} with another's source" in found.because
    assert train(constants(layers=1), **TINY, seeds=1).runs[0].reads_source is None


def blind(monkeypatch):
    """Cross-attention of no weight: a decoder that is a language model and nothing else."""
    build = runs.build

    def without_cross(c, **options):
        model = build(c, **options)
        for r in model.residuals():
            if r.site.kind == "cross":
                r.branch.register_forward_hook(lambda _module, _inputs, y: 0 * y)
        return model

    monkeypatch.setattr(runs, "build", without_cross)


@pytest.mark.slow
@pytest.mark.parametrize("reads", [True, False])
def test_an_encoder_decoder_learns_to_read_its_source(constants, reads, monkeypatch, tmp_path):
    if not reads:  # planted error: below the entropy all the same, and never SUPPORTED
        blind(monkeypatch)
    path = tmp_path / "t.txt"  # a topic is four letters: the source has them all
    draw = random.Random(0)
    topics = (draw.sample(range(97, 123), 4) for _ in range(400))
    path.write_bytes(b"".join(bytes(draw.choices(topic, k=200)) for topic in topics))
    c = constants("encoder-decoder", layers=2, width=64)
    result = train(c, steps=150, batch=16, tokens=16, lr=3e-3, seeds=1, text=path)
    own = result.runs[0]
    assert own.held_out < result.baseline
    assert own.reads_source is reads
    if reads:
        assert "does not read" not in result.because
        assert own.shuffled > own.held_out + 0.1  # nats a byte
    else:
        assert "the decoder does not read its source" in result.because
        assert own.shuffled == own.held_out


def drawn_from(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_target_is_the_next_byte():
    for parts in (1, 2):
        corpus = Text(None, 16, parts)
        batch = corpus.batch(5, drawn_from())
        assert batch.tokens.shape == batch.targets.shape == (5, 16)
        assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])
        if parts == 2:  # the decoder goes on where the source ends
            joined = torch.cat([batch.source, batch.tokens], 1)[0].tolist()
            run = next(r for r in map(bytes, corpus.train.tolist()) if bytes(joined) in r)
            assert run[run.index(bytes(joined)) + 32] == batch.targets[0, -1]
            other = batch.shuffled()
            assert torch.equal(other.source[1], batch.source[0])
            assert torch.equal(other.targets, batch.targets)


@given(st.integers(0, 5000), st.integers(1, 40), st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_held_out_text_is_never_trained_on(extra, tokens, parts):
    """Every window is found by its places: bytes are the text's, places are the tensor's."""
    length = 10 * (parts * tokens + 1) + extra
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.txt"
        path.write_bytes(bytes(length))
        corpus = Text(path, tokens, parts)
    places = torch.arange(length)[: corpus.train.numel() + corpus.held_out.numel()]
    places = places.view(corpus.cycles, -1)
    corpus.train, corpus.held_out = places.split([9 * corpus.piece, corpus.piece], dim=1)
    seen = [corpus.batch(200, drawn_from(), held_out=held) for held in (False, True)]
    train, held = (set(torch.cat([b.tokens, b.targets], 1).flatten().tolist()) for b in seen)
    assert not train & held
    assert len(held) <= length / 10
    for b in seen:  # each window is one stretch of the text
        assert ((b.targets - b.tokens) == 1).all()


def test_held_out_windows_are_spread_through_the_text(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes(bytes(place * 200 // 40_000 for place in range(40_000)))  # a topic a place
    corpus, mean = Text(path, 8), {}
    for held_out in (True, False):
        topics = corpus.batch(400, drawn_from(), held_out=held_out).targets.flatten().tolist()
        # planted error: a last tenth would be {4}
        assert {topic // 40 for topic in topics} == {0, 1, 2, 3, 4}
        mean[held_out] = sum(topics) / len(topics)
    assert abs(mean[True] - mean[False]) < 200 / 10


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_the_entropy_is_that_of_the_counts(counts):
    symbols = torch.tensor([i for i, n in enumerate(counts) for _ in range(n)])
    total = sum(counts)
    expected = -sum(n / total * math.log(n / total) for n in counts)
    assert entropy(symbols) == pytest.approx(expected, abs=1e-12)


def test_short_or_unreadable_texts_are_named(tmp_path):
    (tmp_path / "short").write_bytes(b"too short")
    (tmp_path / "empty").write_bytes(b"")
    for name in ("short", "empty", "absent", "."):
        with pytest.raises(InputError, match=str(tmp_path)):
            Text(tmp_path / name, 16)


def test_what_ends_a_training_before_its_first_run_is_said(monkeypatch):
    constants = dt.export("adam", 1, width=8, heads=2)
    for why, error, says in (
        (INTERRUPTION, KeyboardInterrupt, ""),
        ("memory ran out", InputError, "memory ran out: a smaller batch, fewer tokens"),
    ):
        monkeypatch.setattr(runs, "run_until_stopped", lambda *_, why=why, **__: why)
        with pytest.raises(error, match=says):
            dt.train(constants, steps=1)
