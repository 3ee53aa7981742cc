"""What is drawn outside the layers, said and refused there, of readings made by hand."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from approved import approve
from small_constants import make_constants
from torch import nn

from deepnet_theory.definitions.constants import Base
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.reading import (
    FoundMatrix,
    FoundNorm,
    FoundSublayer,
    FoundTable,
    Logits,
    Reading,
)
from deepnet_theory.definitions.rule import ParameterConstants
from deepnet_theory.definitions.subject import Difference, WantedSublayer
from deepnet_theory.models import applying
from deepnet_theory.models.applying import Applied, Change, head_std, is_high, near_one, outer_draws
from deepnet_theory.models.findings import of_start

D, V = 16, 64
EVEN = math.log(V)
QUERY = FoundMatrix("h.0.q", "query", 0, ((0, D),), D, D)
HEAD = FoundMatrix("lm_head", "head", 0, ((0, V),), D, V, entries=0.1)
LOGITS = Logits(HEAD, 1.0, 0.0, 1.01 * EVEN, 1.01 * EVEN)
WTE = FoundTable("decoder", "wte", V, 1.0, 0.02, True)
WPE = FoundTable("decoder", "wpe", 32, 1.0, 0.03, False)
SINES = FoundTable("decoder", "", 0, 1.0, 0.7, False)
ROWS = tuple(
    FoundSublayer("decoder", i, kind, 2 * i, 1.0, 1.0, (), (QUERY,) * (kind == "attention"))
    for i in range(2)
    for kind in ("attention", "ffn")
)
SUM = tuple(replace(s, norms=(FoundNorm("sum", True, None, None, 1.0),)) for s in ROWS)
READING = Reading(
    ROWS, (), {"decoder": 0.04}, ("wte",), ("lm_head",), tables=(WTE, WPE), logits=LOGITS
)
BASE = {"base": {"width": 4, "heads": 4, "depth": None, "alignment": "full", "shape": {}}}
PLAIN = make_constants("decoder", "pre-ln")
MULTIPLIED = replace(PLAIN, head_multiplier=0.25, scores=0.5, origin=BASE)
OUTER = {"head": ParameterConstants(0.5), "embedding": ParameterConstants()}
GAINED = replace(MULTIPLIED, outer=OUTER)
BOTH = replace(
    GAINED, architecture=replace(PLAIN.architecture, tied_head=True), outer={**OUTER}
)  # of a tied head


def of_head(entries=0.1, times=1.0, **more):
    """The reading with another head."""
    head = replace(HEAD, entries=entries, times=times)
    return replace(READING, logits=replace(LOGITS, head=head, **more))


def tied(entries=0.1, **more):
    """The reading with a head that is the table."""
    logits = replace(LOGITS, head=replace(HEAD, name="wte", entries=entries), **more)
    return replace(READING, head=("wte",), logits=logits)


def tables(*several, **more):
    return replace(READING, tables=several, **more)


SCALED = replace(of_head(times=0.25), sublayers=tuple(replace(s, scores=0.5) for s in ROWS))
START = (FoundNorm("start", True, "g", "b", 1.0),)
MADE = {
    "small rows": (READING, PLAIN),
    "rows of one table, twice as large in the code": (tables(replace(WTE, times=-2.0)), PLAIN),
    "rows and sinusoids": (tables(WTE, SINES), PLAIN),
    "rows that nothing takes": (tables(replace(WTE, times=0.0), WPE), PLAIN),
    "behind a norm": (replace(READING, norms=START), PLAIN),
    "a stream that no table makes": (tables(), PLAIN),
    "a stream that nothing makes": (tables(embeddings=()), PLAIN),
    "a stream at rest": (replace(READING, stream={"decoder": 0.0}), PLAIN),
    "a norm on the sum": (replace(READING, sublayers=SUM), PLAIN),
    "and a small head": (replace(of_head(0.01), sublayers=SUM), PLAIN),
    "a loud state": (of_head(state=3.0), PLAIN),
    "a head that is used often": (of_head(times=5.0, state=3.0), PLAIN),
    "no head": (replace(READING, logits=None, head=()), MULTIPLIED),
    "a tied head": (tied(), PLAIN),
    "a tied head that would be loud": (tied(loss_at_one=2 * EVEN), PLAIN),
    "a multiplier of the base": (READING, MULTIPLIED),
    "that the code has": (SCALED, MULTIPLIED),
    "with a gain": (READING, GAINED),
    "of a tied head": (tied(), BOTH),
    "and a loud one": (tied(loss_at_one=9 * EVEN), BOTH),
    "that is settled": (tied(1 / D), BOTH),
}


def test_what_is_drawn_and_written_outside_the_layers():
    told = []
    for name, (reading, c) in MADE.items():
        draws = [f"  {at}: {what}, {std:.6g}" for at, what, std in outer_draws(reading, c)]
        lines = [f"  {line}" for line in applying.lines_of_code(reading, c)]
        told.append("\n".join((name, *draws, *lines, "")))
    approve(Path(__file__).parent / "approved" / "outside.txt", "\n".join(told))


def test_a_head_is_drawn_by_xavier_or_so_that_the_loss_begins_low():
    assert head_std(LOGITS) == pytest.approx(HEAD.xavier * math.sqrt(0.04 * EVEN * (D + V) / D))
    wide = replace(LOGITS, head=replace(HEAD, fan_out=10**6))
    assert head_std(wide) == wide.head.xavier
    assert head_std(replace(wide, state=3.0)) == pytest.approx(wide.head.xavier / 3)
    assert head_std(replace(wide, state=0.3)) == wide.head.xavier
    assert Base(**BASE["base"]) == MULTIPLIED.base  # whose width says how much the loss is raised
    assert head_std(LOGITS, MULTIPLIED) == pytest.approx(
        min(1.0, math.sqrt(0.04 * EVEN * (4 + V) / 4)) * HEAD.xavier
    )


def test_a_stream_is_near_1_within_a_factor_2_and_a_loss_is_high_beyond_its_chance():
    assert [near_one(x) for x in (0.5, 0.51, 1.99, 2.0)] == [False, True, True, False]
    most = EVEN * (1 + 0.05 * (1 + 3 * math.sqrt(2 / V)))
    assert not is_high(LOGITS, most - 1e-9) and is_high(LOGITS, most + 1e-9)


REFUSED = {
    "stream": (replace(READING, stream={"decoder": 0.4}), {"wte"}),
    "loss": (of_head(loss=9.0), ()),
    "tied": (tied(loss=9.0, loss_at_one=9.0), ()),
}


def test_what_does_not_start_as_it_should_is_refused_and_what_has_no_place_said():
    told = []
    for name, (reading, drawn) in REFUSED.items():
        with pytest.raises(Refusal) as refused:
            applying._require_outer(reading, PLAIN, drawn)
        told.append(f"{name}\n  {refused.value}\n")
    applying._require_outer(replace(READING, stream={"decoder": 0.4}), PLAIN, {"wpe2"})
    applying._require_outer(of_head(loss=5.0), MULTIPLIED, ())  # 0.25² of what is above ln V
    output = tuple(replace(s, norms=(FoundNorm("output", True, "", "", 1.0),)) for s in ROWS)
    for found, rows in ((1.0, ROWS), (3.0, ROWS), (1.0, output)):
        d = Difference(1, "alpha", found / 2, found, 2.0)
        told.append(applying._no_place(replace(READING, sublayers=rows), d) + "\n")
    approve(Path(__file__).parent / "approved" / "no_place.txt", "\n".join(told))


def test_a_summary_has_a_line_of_each_kind(monkeypatch):
    monkeypatch.setattr(applying, "_rates", lambda *_: [0.25, 0.5, 1.0])
    rows = tuple(WantedSublayer(frozenset(), a, {"query": 0.5}) for a in (2.0, 2.0, 3.0, 2.0))
    rule, told = SimpleNamespace(sublayers=rows), []
    changes = [
        Change("h.0.q", "query, gain 0.5, standard deviation 0.125"),
        Change("b", "bias, 0"),
        Change("decoder layer 0, ffn", "norm(2·x + G(x))"),
        Change("wte", "rows, standard deviation 1"),
        Change("lm_head", "head, standard deviation"),
        Change("g, eps", "epsilon 1e-06"),
        Change("g2, eps", "epsilon 1e-06"),
    ]
    between = replace(READING, head=("pool", "lm_head"))
    conditioned = replace(PLAIN, condition="Mind the head.")
    for reading, c, done in (
        (between, conditioned, changes),
        (replace(READING, logits=None), PLAIN, changes[1:2]),
    ):
        lines, large = ["x = x * 2"], {"output": 1e-7}
        summary = tuple(applying._summary(reading, rule, c, done, lines, large))
        told.append("\n".join((*summary, "")))
        assert str(Applied(tuple(done), summary)) == "\n".join(summary)
    approve(Path(__file__).parent / "approved" / "summary.txt", "\n".join(told))
    assert str(Applied(())) == "nothing changed: the model already has these constants"


def xavier(rows):
    return math.sqrt(2 / (rows + D))


@pytest.mark.parametrize(("std", "found"), [(None, 3), (0.02, 0)])
def test_outer_matrices_at_the_gain_of_a_published_rule_are_named_where_all_are(std, found):
    small = tuple(replace(t, size=0.5 * xavier(t.rows)) for t in (WTE, WPE))
    reading = replace(of_head(0.5 * xavier(V)), tables=small)
    row = WantedSublayer(frozenset(), 1.0, {"fc1": 0.5, "fc2": 1.0, "query": 0.0}, std=std)
    rule = SimpleNamespace(sublayers=(row,), published=True, name="deepnorm")

    def named(**other):
        return [*of_start(nn.Module(), replace(reading, **other), rule)]

    assert [f.where for f in named()] == ["wte: gain", "wpe: gain", "lm_head: gain"][:found]
    assert {f.size for f in named()} == {2.0} or not found
    off = 3 / math.sqrt(2 * V * D)  # three standard errors of the size of that many entries
    for times, all_are in ((0.99, found), (1.01, 0)):
        nearly = replace(small[0], size=small[0].size * (1 + times * off / (1 - off)))
        assert len(named(tables=(nearly, small[1]))) == all_are
    assert len(named(tables=small[:1], logits=None)) == 0  # one alone may be so by chance
    rule.published = False
    assert not named()


def test_a_loud_head_is_a_finding_beyond_a_nat_above_what_one_may_add():
    rule = SimpleNamespace(sublayers=(), published=True, name="deepnorm")
    most = EVEN * (1 + 0.05 * (1 + 3 * math.sqrt(2 / V))) + 1
    for loss, count in ((most - 1e-9, 0), (most + 1e-9, 1)):
        found = [*of_start(nn.Module(), of_head(loss=loss), rule)]
        assert [f.where for f in found] == ["head: lm_head"] * count
        assert [f.size for f in found] == pytest.approx([loss / EVEN] * count)
        assert all("std=0.1442" in f.mend and f"starts at {loss:.3g}" in f.what for f in found)
    assert "apply_ says which" in next(of_start(nn.Module(), tied(loss=2 * most), rule)).mend
