"""The runner of claims: discovery, processes, comparison with the record, JSON and the page."""

import json
import os
import sys
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.processes import cores
from paper_checks.shared import pages as page
from paper_checks.shared.check import check, claims, one_thread, run
from paper_checks.shared.claim import Claim, Context, Finding, Weight, plain

PROVED, SUPPORTED, REFUTED = Verdict.PROVED, Verdict.SUPPORTED, Verdict.REFUTED
UNDECIDED, ASSUMED = Verdict.UNDECIDED, Verdict.ASSUMED

BENCH = """
from dataclasses import dataclass
from paper_checks.shared.claim import Claim, Context, Finding
from deepnet_theory.definitions.outcome import Verdict

@dataclass(frozen=True)
class Lab(Context):
    def told(self, verdict):
        return Finding("", verdict, "because", {"full": self.full, "seed": self.seed})
"""

FILE = """
from paper_checks.shared.bench import Claim, Verdict

CLAIM = Claim("{name}", "a source", "1 = {name}", "always", "a finding", seconds={seconds}{more})

@CLAIM.stated("it", Verdict.{recorded})
def it(lab):
    print("a check may print")
    {body}
    return lab.told(Verdict.{found})
{rest}
"""
OTHER_PART = """
@CLAIM.{weight}("{about}", Verdict.{verdict})
def other(lab):
    return lab.told(Verdict.{verdict})
"""


def write(folder, name, found="PROVED", recorded="", body="pass", more="", rest="", seconds=1.0):
    """A claim's file with the bench that it imports."""
    (folder / "shared").mkdir(exist_ok=True)
    (folder / "shared" / "bench.py").write_text(BENCH)
    path = folder / name.split("-")[0] / f"{name.replace('-', '_')}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        FILE.format(
            name=name, found=found, recorded=recorded or found, body=body, more=more, rest=rest,
            seconds=seconds,
        )
    )  # fmt: skip
    return path


def make(*parts, **changes):
    """A claim with parts that find what is recorded on them."""
    given = {"name": "c", "source": "s", "statement": "a", "conditions": "b", "finding": "f"}
    claim = Claim(**{**given, **changes})
    for about, verdict, weight in parts:
        getattr(claim, weight)(about, verdict)(
            lambda lab, verdict=verdict: Finding("", verdict, "because")
        )
    claim.require_whole()
    return claim


IT = ("it", PROVED, Weight.STATED)
WRONG = ("it", REFUTED, Weight.STATED)
LAW = ("law", SUPPORTED, Weight.CORRECTION)
MENDED = {"counterexample": "x", "corrected": "y"}


def test_results_come_from_worker_processes_in_order_of_names(tmp_path):
    write(tmp_path, "b-two", seconds=5)
    write(tmp_path, "a-one")
    seen = []
    checked = check(
        where=tmp_path, processes=2, full=True, seed=7, progress=lambda *x: seen.append(x)
    )
    assert [r.claim.name for r in checked.results] == ["a-one", "b-two"]
    assert checked.exit_code == 0
    assert checked.results[0].findings[0].evidence == {"full": True, "seed": 7}
    assert sorted(seen)[-1][:2] == (6.0, 6.0) and {s[2] for s in seen} == {"a-one", "b-two"}


def test_a_changed_verdict_is_an_error_and_the_json_has_the_public_keys(tmp_path):
    write(tmp_path, "turned", found="SUPPORTED", recorded="PROVED")
    write(tmp_path, "kept")
    checked = check(where=tmp_path, processes=1, seed=4)
    assert checked.exit_code == 1
    assert [r.claim.name for r in checked.changed] == ["turned"]
    assert "CHANGED" in checked.table() and checked.by_verdict()[0].claim.name == "turned"
    kept = checked.results[0]
    assert kept.findings[0].evidence["seed"] == 4
    assert kept.command == "deepnet-theory check kept --seed 4 --format json"
    data = json.loads(checked.to_json())
    assert data["schema"] == "deepnet-theory/claims/1"
    row = data["claims"][0]
    assert {"id", "source", "statement", "conditions", "evidence"} <= set(row)
    assert row["evidence"]["command"] == kept.command
    assert row["verdict"] == row["recorded"] == "PROVED"
    for wrong, says in (
        ({"seed": -1}, "seed -1"),
        ({"names": ["unknwon"]}, "unknown claim 'unknwon'; valid are: kept"),
    ):
        with pytest.raises(InputError, match=says):
            check(wrong.get("names"), where=tmp_path, seed=wrong.get("seed", 0))
    value = {"a": (1, 2.0), "b": float("nan"), "c": Fraction(1, 2), "d": PROVED, 3: True}
    assert plain(value) == {"a": [1, 2.0], "b": None, "c": "1/2", "d": "PROVED", "3": True}


def test_a_part_without_a_record_or_without_a_finding_is_a_change():
    assert make(IT, finding="x_{l+1} of\n        a layer").finding == "x_{l+1} of a layer"
    found = run(make(IT), Context())
    assert found.as_recorded
    two = make(IT, ("also", PROVED, Weight.OURS))
    assert not replace(found, claim=two).as_recorded
    assert not replace(run(two, Context()), claim=make(IT)).as_recorded


def test_a_failing_check_is_reported_and_a_process_that_dies_ends_the_run(tmp_path):
    write(tmp_path, "a-bad", body="raise ValueError('broken')", seconds=9)
    write(tmp_path, "b-good")
    checked = check(where=tmp_path, processes=1)
    bad, good = checked.results
    assert good.as_recorded and not bad.as_recorded and checked.exit_code == 1
    assert "broken" in bad.error and bad.verdict is Verdict.UNDECIDED
    write(tmp_path, "a-bad", body="import os; os._exit(3)", seconds=9)
    checked = check(where=tmp_path, processes=2)
    assert checked.exit_code == 3 and "a-bad" in checked.unchecked
    assert "a process ended before its work was done" in checked.table().splitlines()[-1]
    assert all(result.as_recorded for result in checked.results)


@pytest.mark.parametrize("place", ["a/a_wrong.py", "b/a_right.py", "a_right.py", "a/b/a_right.py"])
def test_a_file_under_a_wrong_name_or_in_a_wrong_folder_does_not_load(tmp_path, place):
    right = write(tmp_path, "a-right")
    assert set(claims(tmp_path)) == {"a-right"}
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    right.rename(tmp_path / place)
    with pytest.raises(TypeError, match=r"a_right\.py|a_wrong\.py"):
        claims(tmp_path)


@pytest.mark.parametrize(
    ("parts", "changes", "why"),
    [
        ((), {}, "no parts"),
        ((LAW,), {}, "no part is stated"),
        ((("it", UNDECIDED, Weight.STATED),), {}, "UNDECIDED"),
        ((IT,), {"would_decide": "how"}, "UNDECIDED"),
        ((("it", ASSUMED, Weight.STATED),), {}, "ASSUMED"),
        ((IT,), {"untestable": "why"}, "ASSUMED"),
        ((WRONG, LAW), {}, "counterexample"),
        ((WRONG,), MENDED, "corrected"),
        ((IT, IT), {}, "same part"),
        ((IT, ("x", REFUTED, Weight.CORRECTION)), MENDED, "must hold"),
        ((IT,), {"finding": " "}, "finding is empty"),
    ],
)
def test_an_irregular_claim_cannot_be_made(parts, changes, why):
    with pytest.raises(TypeError, match=why):
        make(*parts, **changes)


def test_what_the_source_states_decides_and_nothing_else():
    bound = ("bound", PROVED, Weight.STATED)
    ours = ("more", REFUTED, Weight.OURS)
    told = {
        "refuted": make(WRONG, LAW, **MENDED),
        "half right": make(bound, WRONG, LAW, **MENDED),
        "undecided": make(bound, ("it", UNDECIDED, Weight.STATED), would_decide="longer runs"),
        "holds": make(IT, ours, LAW, **MENDED),
    }
    assert {name: claim.standing for name, claim in told.items()} == {name: name for name in told}
    assert [c.verdict() for c in told.values()] == [REFUTED, REFUTED, UNDECIDED, PROVED]
    rows = run(told["holds"], Context()).to_dict()["verdicts"]
    assert [row["weight"] for row in rows] == ["stated", "ours", "correction"]
    assert [row["corrected"] for row in rows] == [False, False, True]


def test_a_part_may_stand_in_the_full_run_alone_or_end_otherwise_there():
    claim = Claim("c", "s", "a", "b", "f", would_decide="the full run")
    tell = lambda lab: Finding("", SUPPORTED, "because")  # noqa: E731
    claim.stated("both", SUPPORTED)(tell)
    claim.stated("full alone", None, full=SUPPORTED)(tell)
    claim.ours("otherwise", UNDECIDED, full=SUPPORTED)(tell)
    claim.require_whole()
    assert [r.about for r in claim.rulings()] == ["both", "otherwise"]
    assert [r.verdict for r in claim.rulings(full=True)] == [SUPPORTED] * 3
    assert run(claim, Context(full=True)).as_recorded and not run(claim, Context()).as_recorded
    with pytest.raises(TypeError, match="no verdict is recorded on 'nothing'"):
        claim.stated("nothing", None)


def test_a_page_puts_the_refuted_first_and_knows_when_it_is_stale(tmp_path):
    more = ', counterexample="an example", corrected="the law"'
    law = OTHER_PART.format(weight="correction", about="law", verdict="PROVED")
    write(tmp_path, "a-right", rest=OTHER_PART.format(weight="ours", about="z", verdict="PROVED"))
    write(tmp_path, "a-wrong", found="REFUTED", rest=law, more=more)
    write(tmp_path, "b-right")
    found = page.pages(tmp_path)
    text = found[tmp_path / "a" / page.PAGE]
    assert text.index("### a-wrong") < text.index("### a-right")
    assert "an example" in text and "deepnet-theory check a-wrong --full" in text
    assert "PROVED (law, corrected)" in text and "PROVED (z, ours)" in text
    rows = [line for line in found[tmp_path / page.PAGE].splitlines() if line.startswith("| [")]
    assert "| [a-right](a/README.md#a-right) | 1 = a-right | holds |" in rows
    assert not page.stale(), "run: python -m paper_checks.shared.pages"
    assert set(found) == {tmp_path / where / page.PAGE for where in (".", "a", "b")}
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")
    assert page.stale(tmp_path) == []
    write(tmp_path, "a-right", more=', counterexample="new"')
    assert page.stale(tmp_path) == [tmp_path / "a" / page.PAGE]


@pytest.mark.parametrize("before", ["2", None])
def test_a_check_that_loads_torch_computes_with_one_thread(monkeypatch, before):
    if before:
        monkeypatch.setenv("OMP_NUM_THREADS", before)
    else:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    told = []
    with one_thread():
        assert os.environ["OMP_NUM_THREADS"] == "1"  # what torch reads while it is loaded
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=told.append))
    assert told == [int(before or cores())] and os.environ.get("OMP_NUM_THREADS") == before
