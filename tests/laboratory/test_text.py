"""Windows of a text: what is learnt from, what is held out, and the entropy."""

import math
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.laboratory.text import Text, entropy


def drawn_from(seed=0):
    return torch.Generator().manual_seed(seed)


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
    for b in seen:  # each window is one stretch of the text, and a decoder goes on from a source
        whole = b.tokens if b.source is None else torch.cat([b.source, b.tokens], 1)
        assert whole.shape == (200, parts * tokens) and (whole.diff() == 1).all()
        assert torch.equal(b.targets, b.tokens + 1)


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
