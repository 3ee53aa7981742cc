"""Errors planted in what derives and proves: how many of them does ``derive`` itself refuse?

    python benchmarks/planted.py [--sample 40] [--seed 0]

No test takes part. A mutant of ``benchmarks/mutants.py`` in ``sizes`` or ``proof``, at a
statement that the derivations below execute, is planted in a copy of the tree, and each of them is
asked again. It is *refused* where a derivation ends with another exit code, *missed* where one
prints other numbers with the exit code that it had, and it does not count where nothing that is
printed changes. What is printed is all of the JSON but the steps, their symbols and the numbers
measured at single depths, for these are the evidence and not the answer.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import io
import json
import pickle
import random
import tempfile
from collections import Counter
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from arguments import output, whole
from mutants import PACKAGE, ROOT, Mutant, Place, Record, all_mutants, copied, forked

RESULTS = ROOT / "benchmarks" / "results" / "planted.md"
ROOMS = ("sizes/", "symbolic/")
EVIDENCE = ("steps", "symbols", "measured", "disagreements")
SECONDS = 120  # of CPU for all derivations together
DERIVATIONS = (
    "--optimizer adam --depth 24",
    "--optimizer sgd --method lemma",
    "--optimizer lamb --stack encoder-decoder",
    "--optimizer adafactor --placement pre-ln --layer attention,ffn:swiglu",
    "--optimizer sgd --placement res-post-ln --closure complete",
    "--optimizer adam --across both",
)
Answers = list[tuple[object, str]]  # of each derivation: its exit code, and what it prints


def printed(text: str) -> str:
    """What is printed, without the evidence for it."""
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError:
        return text
    return json.dumps({key: value for key, value in answer.items() if key not in EVIDENCE})


def answers() -> Answers:
    """What every derivation answers, in a process that has not imported the package."""
    main = importlib.import_module(f"{PACKAGE}.cli").main
    given: Answers = []
    for words in DERIVATIONS:
        screen = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(io.StringIO()):
            try:
                code: object = main(["derive", *words.split(), "--format", "json"])
            except BaseException as error:  # whatever a planted error raises is seen by the user
                code = type(error).__name__
            screen.flush()
        given.append((code, printed(screen.buffer.getvalue().decode())))  # type: ignore[attr-defined]
    return given


def asked(tree: Path, executed: bool = False) -> tuple[Answers, set[Place]] | None:
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
        wrong = asked(tree)
    finally:
        file.write_text(source, encoding="utf-8")
    if wrong is None:
        return "refused"
    pairs = [pair for pair in zip(right, wrong[0], strict=True) if pair[0] != pair[1]]
    if any(before[0] == after[0] for before, after in pairs):
        return "missed"
    return "refused" if pairs else "no change"


def page(fates: dict[Mutant, str], asked_for: str) -> str:
    """The result as Markdown."""
    counts = Counter(fates.values())
    changed = counts["refused"] + counts["missed"]
    rows = sorted((m for m in fates if fates[m] == "missed"), key=lambda m: (m.file, m.line))
    return "\n".join([
        "# Planted in the derivation", "",
        f"`{asked_for}`: of {changed} errors that change what is printed, `derive` itself refuses "
        f"**{counts['refused']}**; {counts['no change']} others changed nothing.",
        "", "| place | missed |", "|---|---|",
        *(f"| {m.file}:{m.line} | {m.change} |" for m in rows), "",
    ])  # fmt: skip


def main() -> None:
    """Plant until ``--sample`` errors have changed what is printed, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=whole(), default=40)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("-o", "--output", type=output, default=RESULTS)
    given = parser.parse_args()
    for module in ("sympy", "numpy"):
        importlib.import_module(module)
    fates: dict[Mutant, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        clean = asked(tree, executed=True)
        assert clean is not None, "the derivations do not end"
        right, places = clean
        reached = [
            mutant
            for mutant in all_mutants()
            if mutant.file.startswith(ROOMS) and (mutant.file, mutant.statement) in places
        ]
        random.Random(given.seed).shuffle(reached)
        command = f"python benchmarks/planted.py --sample {given.sample} --seed {given.seed}"
        for mutant in reached:
            fates[mutant] = fate(mutant, tree, right)
            print(f"{fates[mutant]}: {mutant.file}:{mutant.line} {mutant.change}", flush=True)
            given.output.write_text(page(fates, command), encoding="utf-8")
            if sum(fate != "no change" for fate in fates.values()) == given.sample:
                break


if __name__ == "__main__":
    main()
