"""Errors planted in what derives: how many does ``derive`` call REFUTED, or a test deny?

    python benchmarks/planted.py [--sample 40] [--seed 0]

A mutant of ``benchmarks/mutants.py`` in ``sizes`` or ``definitions``, at a
statement that the derivations below execute, is planted in a copy of the tree, and each of them is
asked again. A mutant counts where a derivation ends with exit code 0 or 1 and prints another
answer. It is *seen* where one of these says REFUTED; else the tests of the core are run with it,
and it is *denied* where one fails by an assertion, *unseen* where none does. Crashes (exit code 70
or an exception) and refusals (2 or 4) show no other answer and find nothing: they are counted
apart, and so is a REFUTED of the right answer. What is printed is all of the JSON but the
evidence: steps, symbols, facts and the verdict.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import io
import json
import os
import pickle
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

from arguments import output, whole
from mutants import PACKAGE, ROOT, Mutant, Place, Record, all_mutants, copied, forked

RESULTS = ROOT / "benchmarks" / "results" / "planted.md"
ROOMS = ("sizes/", "definitions/")
EVIDENCE = ("steps", "symbols", "measured", "verdict", "assumptions", "relation")
SECONDS = 120  # of CPU for all derivations together
DERIVATIONS = (
    "--optimizer adam --depth 24",
    "--optimizer sgd --method lemma",
    "--optimizer lamb --stack encoder-decoder",
    "--optimizer adafactor --placement pre-ln --layer attention,ffn:swiglu",
    "--optimizer sgd --placement res-post-ln --closure complete",
    "--optimizer adam --across both",
)
# what may deny an answer, the quickest first
TESTS = ("tests/proof/test_algebra.py", "tests/sizes", "tests/definitions", "tests/proof",
         "tests/test_outputs.py", "tests/cli/test_commands.py", "tests/report")  # fmt: skip
SEEN, DENIED, UNSEEN, CRASHED, REFUSED = "seen", "denied", "unseen", "crashed", "refused"
COUNTED = (SEEN, DENIED, UNSEEN)
FALSE, SAME = "refuted a right answer", "changed nothing"


class Given(NamedTuple):
    """What a derivation ends in: its exit code, its answer without evidence, and its verdict."""

    code: object
    answer: str
    verdict: str


Answers = list[Given]


def given(code: object, text: str) -> Given:
    """What is printed, the evidence taken out."""
    try:
        data: dict[str, Any] = json.loads(text)
    except ValueError:
        return Given(code, text, "")
    answer = {key: value for key, value in data.items() if key not in EVIDENCE}
    return Given(code, json.dumps(answer), data.get("verdict", ""))


def answers() -> Answers:
    """What every derivation answers, in a process that has not imported the package."""
    main = importlib.import_module(f"{PACKAGE}.cli").main
    ends: Answers = []
    for words in DERIVATIONS:
        screen = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(io.StringIO()):
            try:
                code: object = main(["derive", *words.split(), "--format", "json"])
            except BaseException as error:  # whatever a planted error raises is seen by the user
                code = type(error).__name__
            screen.flush()
        ends.append(given(code, screen.buffer.getvalue().decode()))  # type: ignore[attr-defined]
    return ends


def asked_of(tree: Path, executed: bool = False) -> tuple[Answers, set[Place]] | None:
    """The answers of a tree and the statements executed for them; None where it does not end."""
    file = tree / "answers.pickle"
    file.unlink(missing_ok=True)

    def work() -> int:
        places: set[Place] = set()
        builtins.__mark__ = places.add
        if executed:
            SourceFileLoader.source_to_code = Record.load
        file.write_bytes(pickle.dumps((answers(), places)))
        return 0

    forked(tree, SECONDS, work)
    return pickle.loads(file.read_bytes()) if file.exists() else None


def fate(mutant: Mutant, tree: Path, right: Answers) -> str:
    """What the derivations make of a mutant."""
    file = tree / PACKAGE / mutant.file
    source = file.read_text(encoding="utf-8")
    file.write_text(mutant.applied(source), encoding="utf-8")
    try:
        wrong = asked_of(tree)
        found = CRASHED if wrong is None else fate_of(right, wrong[0])
        return DENIED if found == UNSEEN and denied(tree) else found
    finally:
        file.write_text(source, encoding="utf-8")


def denied(tree: Path) -> bool:
    """Whether a test fails by an assertion; one that raises anything else finds nothing."""
    fast = ("-m", "not slow and not notebooks", "-n", "0", "-p", "no:cacheprovider", "--tb=short")
    for tests in TESTS:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *fast, tests], cwd=tree, text=True,
            capture_output=True, env={**os.environ, "PYTHONPATH": str(tree)}, check=False,
        )  # fmt: skip
        if re.search(r"^E +(assert |AssertionError|Failed: DID NOT)", ran.stdout, re.MULTILINE):
            return True
    return False


def fate_of(right: Answers, wrong: Answers) -> str:
    """Whether another answer is seen to be wrong, and what a mutant does that gives none."""
    pairs = list(zip(right, wrong, strict=True))
    others = [now for was, now in pairs if now.code in (0, 1) and now.answer != was.answer]
    if others:
        return SEEN if any(now.verdict == "REFUTED" for now in others) else UNSEEN
    codes = {now.code for was, now in pairs if now.code != was.code}
    if codes <= {0, 1}:
        return FALSE if codes else SAME
    return REFUSED if codes <= {0, 1, 2, 4} else CRASHED


def page(fates: dict[Mutant, str], asked_for: str) -> str:
    """The result as Markdown."""
    counts = Counter(fates.values())
    rows = sorted((m for m in fates if fates[m] == UNSEEN), key=lambda m: (m.file, m.line))
    return "\n".join([
        "# Errors planted in the derivation", "",
        f"Of {sum(counts[one] for one in COUNTED)} random errors that changed an answer, `derive` "
        f"itself calls **{counts[SEEN]}** REFUTED. A test fails by an assertion with "
        f"{counts[DENIED]} more. Unseen: {counts[UNSEEN]}. The errors are planted in the code that "
        "derives rules.", "",
        "Not counted: "
        + ", ".join(f"{counts[one]} {one}" for one in (CRASHED, REFUSED, FALSE, SAME))
        + f". Made by `{asked_for}`.",
        "", "| file and line | unseen change |", "|---|---|",
        *(f"| {m.file}:{m.line} | {m.change} |" for m in rows), "",
    ])  # fmt: skip


def main() -> None:
    """Plant until ``--sample`` errors have given another answer, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=whole(), default=40)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("-o", "--output", type=output, default=RESULTS)
    asked = parser.parse_args()
    for module in ("sympy", "numpy"):
        importlib.import_module(module)
    fates: dict[Mutant, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        clean = asked_of(tree, executed=True)
        assert clean is not None, "the derivations do not end"
        right, places = clean
        reached = [
            mutant
            for mutant in all_mutants()
            if mutant.file.startswith(ROOMS) and (mutant.file, mutant.statement) in places
        ]
        random.Random(asked.seed).shuffle(reached)
        command = f"python benchmarks/planted.py --sample {asked.sample} --seed {asked.seed}"
        for mutant in reached:
            fates[mutant] = fate(mutant, tree, right)
            print(f"{fates[mutant]}: {mutant.file}:{mutant.line} {mutant.change}", flush=True)
            asked.output.write_text(page(fates, command), encoding="utf-8")
            if sum(fate in COUNTED for fate in fates.values()) == asked.sample:
                break


if __name__ == "__main__":
    main()
