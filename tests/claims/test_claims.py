"""The runner of claims: discovery, processes, comparison with the record, JSON and the pages."""

import json
import os
import sys
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.processes.jobs import cores
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
"""
LAW = """
@CLAIM.correction("law", Verdict.PROVED)
def law(lab):
    return lab.told(Verdict.PROVED)
"""


def write(folder, name, found="PROVED", recorded="", body="pass", more="", rest="", seconds=1.0):
    """A claim's file with the bench that it imports."""
    (folder / "shared").mkdir(exist_ok=True)
    (folder / "shared" / "bench.py").write_text(BENCH)
    path = folder / name.split("-")[0] / f"{name.replace('-', '_')}.py"
    path.parent.mkdir(exist_ok=True)
    given = {"found": found, "recorded": recorded or found, "seconds": seconds}
    path.write_text(FILE.format(name=name, body=body, more=more, **given) + rest)
    return path


def make(*parts, **changes):
    """A claim with parts that find what is recorded on them."""
    given = {"name": "c", "source": "s", "statement": "a", "conditions": "b", "finding": "f"}
    claim = Claim(**{**given, **changes})
    for about, verdict, weight in parts:
        part = getattr(claim, weight)(about, verdict)
        part(lambda lab, verdict=verdict: Finding("", verdict, "because"))
    claim.require_whole()
    return claim


IT, WRONG = ("it", PROVED, Weight.STATED), ("it", REFUTED, Weight.STATED)
MORE, TRUE = ("more", REFUTED, Weight.OURS), ("law", SUPPORTED, Weight.CORRECTION)
MENDED = {"counterexample": "x", "corrected": "y"}


def test_results_come_from_worker_processes_the_costliest_first(tmp_path):
    write(tmp_path, "b-two", seconds=(1, 9))
    write(tmp_path, "a-one", seconds=5)
    seen = []
    told = {"where": tmp_path, "full": True, "seed": 7, "progress": lambda *x: seen.append(x)}
    checked = check(processes=2, **told)
    assert [r.claim.name for r in checked.results] == ["a-one", "b-two"] and not checked.exit_code
    assert checked.results[0].findings[0].evidence == {"full": True, "seed": 7}
    assert sorted(seen)[-1][:2] == (14.0, 14.0)
    seen.clear()
    check(processes=1, **told)
    assert seen[0][2] == "b-two"


def test_a_changed_verdict_is_an_error_and_the_json_has_the_public_keys(tmp_path):
    write(tmp_path, "turned", found="SUPPORTED", recorded="PROVED")
    write(tmp_path, "kept")
    checked = check(where=tmp_path, processes=1, seed=4)
    assert checked.exit_code == 1 and [r.claim.name for r in checked.changed] == ["turned"]
    assert "CHANGED" in checked.table() and checked.by_verdict()[0].claim.name == "turned"
    data = json.loads(checked.to_json())
    row = data["claims"][0]
    assert data["schema"] == "deepnet-theory/claims/1"
    assert {"id", "source", "statement", "conditions", "evidence"} <= set(row)
    assert row["evidence"]["command"] == "deepnet-theory check kept --seed 4 --format json"
    assert row["verdict"] == row["recorded"] == "PROVED"
    for wrong, says in (
        ({"seed": -1}, "seed -1"),
        ({"ids": ["unknwon"]}, "unknown claim 'unknwon'; valid are: kept"),
    ):
        with pytest.raises(InputError, match=says):
            check(where=tmp_path, **wrong)
    value = {"a": (1, 2.0), "b": float("nan"), "c": Fraction(1, 2), "d": PROVED, 3: True}
    assert plain(value) == {"a": [1, 2.0], "b": None, "c": "1/2", "d": "PROVED", "3": True}


def test_a_failing_check_is_reported_and_a_process_that_dies_ends_the_run(tmp_path):
    write(tmp_path, "a-bad", body="raise ValueError('broken')", seconds=9)
    write(tmp_path, "b-good")
    bad, good = (checked := check(where=tmp_path, processes=1)).results
    assert good.as_recorded and not bad.as_recorded and checked.exit_code == 1
    assert "broken" in bad.error and bad.verdict is UNDECIDED
    assert 'a_bad.py", line ' in checked.table()  # where it failed
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
        ((TRUE,), {}, "no part is stated"),
        ((("it", UNDECIDED, Weight.STATED),), {}, "UNDECIDED"),
        ((IT,), {"would_decide": "how"}, "UNDECIDED"),
        ((("it", ASSUMED, Weight.STATED),), {}, "ASSUMED"),
        ((IT,), {"untestable": "why"}, "ASSUMED"),
        ((WRONG, TRUE), {}, "counterexample"),
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
    bound, open_ = ("bound", PROVED, Weight.STATED), ("it", UNDECIDED, Weight.STATED)
    told = {
        "refuted": make(WRONG, TRUE, **MENDED),
        "half right": make(bound, WRONG, TRUE, **MENDED),
        "undecided": make(bound, open_, would_decide="longer runs"),
        "holds": make(IT, MORE, TRUE, **MENDED),
    }
    assert {name: claim.standing for name, claim in told.items()} == {name: name for name in told}
    assert [c.verdict() for c in told.values()] == [REFUTED, REFUTED, UNDECIDED, PROVED]
    rows = run(told["holds"], Context()).to_dict()["verdicts"]
    assert [row["weight"] for row in rows] == ["stated", "ours", "correction"]
    found, two = run(make(IT), Context()), make(IT, ("also", PROVED, Weight.OURS))
    assert found.as_recorded and not replace(found, claim=two).as_recorded
    assert not replace(run(two, Context()), claim=make(IT)).as_recorded


def test_a_part_may_stand_in_the_full_run_alone_or_end_otherwise_there():
    claim = Claim("c", "s", "a", "b", "f", would_decide="the full run")
    for about, quick in (("both", SUPPORTED), ("full alone", None), ("otherwise", UNDECIDED)):
        part = claim.stated(about, quick, full=SUPPORTED)
        part(lambda lab: Finding("", SUPPORTED, "because"))
    claim.require_whole()
    assert [r.about for r in claim.rulings()] == ["both", "otherwise"]
    assert [r.verdict for r in claim.rulings(full=True)] == [SUPPORTED] * 3
    assert run(claim, Context(full=True)).as_recorded and not run(claim, Context()).as_recorded
    with pytest.raises(TypeError, match="no verdict is recorded on 'nothing'"):
        claim.stated("nothing", None)


def test_a_page_puts_the_refuted_first_and_knows_when_it_is_stale(tmp_path):
    write(tmp_path, "a-right")
    more = ', counterexample="an example", corrected="the law"'
    write(tmp_path, "a-wrong", found="REFUTED", rest=LAW, more=more)
    found = page.pages(tmp_path)
    text, table = found[tmp_path / "a" / page.PAGE], found[tmp_path / page.PAGE]
    assert text.index("### a-wrong") < text.index("### a-right") and "an example" in text
    assert "PROVED (law, corrected)" in text and "deepnet-theory check a-wrong --full" in text
    assert "| [a-right](a/README.md#a-right) | 1 = a-right | holds |" in table.splitlines()
    assert not page.stale(), "run: python -m paper_checks.shared.pages"
    for path, told in found.items():
        path.write_text(told, encoding="utf-8")
    assert page.stale(tmp_path) == []
    write(tmp_path, "a-right", more=', counterexample="new"')
    assert page.stale(tmp_path) == [tmp_path / "a" / page.PAGE]


@pytest.mark.parametrize("before", ["2", None])
def test_a_check_that_loads_torch_computes_with_one_thread(monkeypatch, before):
    monkeypatch.setenv("OMP_NUM_THREADS", before or "")
    if before is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    told = []
    with one_thread():
        assert os.environ["OMP_NUM_THREADS"] == "1"  # what torch reads while it is loaded
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=told.append))
    assert told == [int(before or cores())] and os.environ.get("OMP_NUM_THREADS") == before
