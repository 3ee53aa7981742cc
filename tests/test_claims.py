"""The runner of claims: discovery, workers, comparison with the record, JSON and the page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deepnet_theory import claims
from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling, plain
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.verdict import Verdict

PROVED, SUPPORTED, REFUTED = Verdict.PROVED, Verdict.SUPPORTED, Verdict.REFUTED

FILE = """
from deepnet_theory.spec.claim import Claim, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._shared import VERDICT

def check(context):
    print("a check may print")
    {body}
    seen = {{"full": context.full, "seed": context.seed}}
    return (Finding("it", Verdict.{found}, "because", seen),)

CLAIM = Claim("{name}", "a source", "1 = {name}", "always", ({recorded},), "a finding", check,
              seconds={seconds}{more})
"""


def write(
    folder: Path,
    name: str,
    found: str = "PROVED",
    recorded: str = "",
    body: str = "pass",
    more: str = "",
    seconds: float = 1.0,
) -> None:
    (folder / "_shared.py").write_text("VERDICT = 1\n")
    ruling = recorded or f'Ruling("it", Verdict.{found})'
    (folder / f"{name.replace('-', '_')}.py").write_text(
        FILE.format(name=name, found=found, recorded=ruling, body=body, more=more, seconds=seconds)
    )


def make(**changes: object) -> Claim:
    given: dict[str, object] = {
        "name": "c",
        "source": "s",
        "statement": "a",
        "conditions": "b",
        "finding": "f",
        "recorded": (Ruling("it", PROVED),),
        "check": lambda context: (),
    }
    return Claim(**{**given, **changes})  # type: ignore[arg-type]


def test_results_come_from_worker_processes_in_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, "b-two", seconds=5)
    write(tmp_path, "a-one")
    seen: list[tuple[float, float, str]] = []
    checked = claims.check(
        where=tmp_path, workers=2, full=True, seed=7, progress=lambda *x: seen.append(x)
    )
    assert [r.claim.name for r in checked.results] == ["a-one", "b-two"]
    assert checked.exit_code == 0
    assert checked.results[0].findings[0].evidence == {"full": True, "seed": 7}
    assert sorted(seen)[-1][:2] == (6.0, 6.0) and {s[2] for s in seen} == {"a-one", "b-two"}


def test_a_changed_verdict_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "turned", found="SUPPORTED", recorded='Ruling("it", Verdict.PROVED)')
    write(tmp_path, "kept")
    checked = claims.check(where=tmp_path, workers=1)
    assert checked.exit_code == 1
    assert [r.claim.name for r in checked.changed] == ["turned"]
    assert "CHANGED" in checked.table() and checked.by_verdict()[0].claim.name == "turned"


def test_the_costliest_of_the_run_at_hand_comes_first(tmp_path: Path) -> None:
    write(tmp_path, "quick", seconds=5)
    write(tmp_path, "slow", seconds=1, more=", full_seconds=9")
    for full, first, whole in ((False, "quick", 6.0), (True, "slow", 14.0)):
        seen: list[tuple[float, float, str]] = []
        claims.check(
            where=tmp_path, workers=0, full=full, progress=lambda *x, seen=seen: seen.append(x)
        )
        assert seen[0][2] == first and seen[-1][:2] == (whole, whole)


def test_ctrl_c_keeps_what_is_finished_and_leaves_no_process(tmp_path: Path) -> None:
    write(tmp_path, "a-done", seconds=9)
    write(tmp_path, "b-waits", body="import time; time.sleep(60)")
    code = (
        "import sys; from pathlib import Path; from deepnet_theory import claims\n"
        f"done = claims.check(where=Path({str(tmp_path)!r}), workers=1,"
        " progress=lambda *x: print('one', flush=True))\n"
        "print(done.table()); sys.exit(done.exit_code)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "one\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, workers too
    began = time.perf_counter()
    printed, noise = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in noise
    assert "1 claims: " in printed and "interrupted; not checked: b-waits" in printed
    assert time.perf_counter() - began < 20
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_part_that_is_missing_or_renamed_is_a_change(tmp_path: Path) -> None:
    two = 'Ruling("it", Verdict.PROVED), Ruling("also", Verdict.PROVED)'
    write(tmp_path, "missing", recorded=two)
    write(tmp_path, "renamed", recorded='Ruling("that", Verdict.PROVED)')
    assert len(claims.check(where=tmp_path, workers=1).changed) == 2


@pytest.mark.parametrize("body", ["raise ValueError('broken')", "import os; os._exit(3)"])
def test_a_failing_check_is_reported_and_the_others_go_on(tmp_path: Path, body: str) -> None:
    write(tmp_path, "a-bad", body=body, seconds=9)
    write(tmp_path, "b-good")
    checked = claims.check(where=tmp_path, workers=1)
    bad, good = checked.results
    assert good.as_recorded and not bad.as_recorded and checked.exit_code == 1
    assert "broken" in bad.error or "code 3" in bad.error
    assert bad.verdict is Verdict.UNDECIDED


def test_an_unknown_id_is_refused_with_the_valid_ones(tmp_path: Path) -> None:
    write(tmp_path, "known")
    with pytest.raises(InputError, match=r"unknown claim 'unknwon'; valid are: known"):
        claims.check(["unknwon"], where=tmp_path)


def test_another_seed_is_used_and_named(tmp_path: Path) -> None:
    write(tmp_path, "one")
    (result,) = claims.check(where=tmp_path, workers=1, seed=4).results
    assert result.findings[0].evidence["seed"] == 4
    assert result.command == "deepnet-theory check one --seed 4 --format json"
    with pytest.raises(InputError, match="seed -1"):
        claims.check(where=tmp_path, seed=-1)


def test_a_file_under_a_wrong_name_does_not_load(tmp_path: Path) -> None:
    write(tmp_path, "right")
    (tmp_path / "right.py").rename(tmp_path / "wrong.py")
    with pytest.raises(TypeError, match="wrong"):
        claims.claims(tmp_path)


def test_the_json_has_the_public_keys(tmp_path: Path) -> None:
    write(tmp_path, "one")
    data = json.loads(claims.to_json(claims.check(where=tmp_path, workers=0)))
    assert data["schema"] == "deepnet-theory/claims/1"
    (row,) = data["claims"]
    assert {"id", "source", "statement", "verdict", "recorded", "conditions", "evidence"} <= set(
        row
    )
    assert row["evidence"]["command"] == "deepnet-theory check one --format json"
    assert row["verdict"] == row["recorded"] == "PROVED"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"recorded": ()}, "no verdict"),
        ({"recorded": (Ruling("it", Verdict.UNDECIDED),)}, "UNDECIDED"),
        ({"recorded": (Ruling("it", Verdict.ASSUMED),)}, "ASSUMED"),
        ({"untestable": "why"}, "ASSUMED"),
        ({"recorded": (Ruling("it", REFUTED),)}, "counterexample"),
        (
            {"recorded": (Ruling("it", REFUTED),), "counterexample": "x", "corrected": "y"},
            "corrected",
        ),
        ({"recorded": (Ruling("it", PROVED), Ruling("it", PROVED))}, "same part"),
        ({"recorded": (Ruling("it", PROVED), Ruling("x", REFUTED, corrected=True))}, "must hold"),
        ({"finding": " "}, "finding is empty"),
    ],
)
def test_an_irregular_claim_cannot_be_made(changes: dict[str, object], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        make(**changes)


def test_standing_and_headline_leave_out_the_correction() -> None:
    mended = {"counterexample": "x", "corrected": "y"}
    law = Ruling("law", SUPPORTED, corrected=True)
    wrong = make(recorded=(Ruling("it", REFUTED), law), **mended)
    half = make(recorded=(Ruling("bound", PROVED), Ruling("it", REFUTED), law), **mended)
    right = make()
    assert [c.standing for c in (wrong, half, right)] == ["refuted", "half right", "holds"]
    assert [c.verdict() for c in (wrong, half, right)] == [REFUTED, REFUTED, PROVED]


def test_evidence_becomes_plain_data() -> None:
    from fractions import Fraction

    value = {"a": (1, 2.0), "b": float("nan"), "c": Fraction(1, 2), "d": PROVED, 3: True}
    assert plain(value) == {"a": [1, 2.0], "b": None, "c": "1/2", "d": "PROVED", "3": True}


def test_the_page_puts_the_refuted_first_and_knows_when_it_is_stale(tmp_path: Path) -> None:
    law = 'Ruling("it", Verdict.REFUTED), Ruling("law", Verdict.PROVED, corrected=True)'
    more = ', counterexample="an example", corrected="the law"'
    write(tmp_path, "a-right")
    write(tmp_path, "z-wrong", found="REFUTED", recorded=law, more=more)
    page = claims.page(tmp_path)
    assert page.index("### z-wrong") < page.index("### a-right")
    assert "an example" in page and "deepnet-theory check z-wrong --full" in page
    assert not claims.page_is_current(tmp_path)
    (tmp_path / claims.PAGE).write_text(page, encoding="utf-8")
    assert claims.page_is_current(tmp_path)
    write(tmp_path, "a-right", more=', counterexample="new"')
    assert not claims.page_is_current(tmp_path)


def test_listing_the_claims_needs_neither_torch_nor_sympy() -> None:
    code = (
        "import sys; from deepnet_theory import claims; assert len(claims.claims()) > 30; "
        "print([m for m in ('torch', 'sympy', 'scipy', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_of_the_repository_is_current() -> None:
    assert claims.page_is_current(), "run: python -m deepnet_theory.claims page"


def test_run_passes_the_context_on() -> None:
    seen: list[Context] = []

    def check(context: Context) -> tuple[Finding, ...]:
        seen.append(context)
        return (Finding("it", PROVED, "because"),)

    assert claims.run(make(check=check), Context(full=True, seed=3)).as_recorded
    assert seen == [Context(full=True, seed=3)]
