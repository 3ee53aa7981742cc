"""Errors planted in the source at random: how many of them do the fast tests see?

    python benchmarks/mutants.py [--sample 300] [--seed 0]

A mutant is one change: a number by 1, another operator or comparison, `and` for `or`, a sign or a
`not` lost, None for what is returned, or the condition of a refusal that never holds. The places
are shuffled by the seed, so that a smaller sample is the beginning of a larger one. Each runs in a
copy of the tree, against the fast tests of its room, until one fails. Tests that search the source
for a text (test_lemma_plants, test_planted_source) would see any change of it, and are left out.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from arguments import output, whole

ROOT = Path(__file__).parents[1]
PACKAGE = "deepnet_theory"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.md"
NOT_RUN = ("annotation", "returns", "decorator_list")
LATE = "killed by the time limit"
# the tests that concern what begins with the name, all of them under tests/
TESTS = """
symbolic proof test_refusals.py rule implications test_derivation.py
symbolic/algebra algebra test_refusals.py proof rule implications
symbolic/proof proof rule routes/test_lemma_steps.py expectation
symbolic/laws laws test_refusals.py proof rule implications
symbolic/expectation expectation test_refusals.py routes/test_moments_route.py
symbolic/rule rule proof implications routes/test_routes.py
symbolic/implications implications test_refusals.py rule
symbolic/routes proof rule routes/test_routes.py
symbolic/routes/lemma routes/test_lemma_rules.py routes/test_lemma_steps.py routes/test_routes.py
symbolic/routes/moments routes/test_moments_route.py routes/test_moments_cross_attention.py
symbolic/asides asides
symbolic/asides/lemma asides routes/test_lemma_steps.py routes/test_lemma_mathematics.py
symbolic/asides/moments asides routes/test_moments_route.py
symbolic/schemes schemes
spec/expression spec symbolic/laws numeric/stepping
numeric/judging numeric/judging
models models
"""
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Pow, ast.Div: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: ``right`` becomes ``wrong`` at an offset of a file."""

    file: str
    line: int
    start: int
    right: str
    wrong: str

    def applied(self, source: str) -> str:
        return source[: self.start] + self.wrong + source[self.start + len(self.right) :]

    @property
    def change(self) -> str:
        """The change in one line, as the page shows it."""
        shown = f"`{self.right}` → `{self.wrong}`"
        return re.sub(r"\s+", " ", shown).replace("|", "\\|")


def changed(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """What may stand in the place of a node, or of a part of it."""
    match node:
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield value, "None"
        case ast.If(condition, [*_, ast.Raise()]):
            yield condition, "False"
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from ((node, f"({value + 1})"), (node, f"({value - 1})"))
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            yield node, f"({ast.unparse(ast.BinOp(left, OPERATORS[type(op)](), right))})"
        case ast.Compare(left, [op], right):
            yield node, f"({ast.unparse(ast.Compare(left, [COMPARISONS[type(op)]()], right))})"
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield node, f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield node, f"({ast.unparse(operand)})"


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: no annotation or decorator, and no text, whose parts have no places."""
    for field, value in ast.iter_fields(tree):
        if field in NOT_RUN or isinstance(tree, ast.JoinedStr):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node
                yield from nodes(node)


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every change of a file."""
    lines = source.splitlines(keepends=True)
    for outer in nodes(ast.parse(source)):
        for node, wrong in changed(outer):
            right = ast.get_source_segment(source, node)
            assert right is not None and isinstance(node, ast.expr)
            before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
            start = len("".join(lines[: node.lineno - 1]) + before)
            yield Mutant(file, node.lineno, start, right, wrong)


def tests_of(file: str) -> tuple[str, ...]:
    """The tests that concern a file; none where no line does."""
    rows = [row.split() for row in TESTS.strip().splitlines() if file.startswith(row.split()[0])]
    if not rows:
        return ()
    room = ROOT / ("tests/symbolic" if file.startswith("symbolic") else "tests")
    found = [room / name for name in max(rows)[1:]]
    return tuple(str(path.relative_to(ROOT)) for path in found if path.exists())


def all_mutants() -> list[Mutant]:
    """Every change of every file that has tests."""
    found: list[Mutant] = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        file = path.relative_to(ROOT / PACKAGE).as_posix()
        if tests_of(file):
            found += mutants(file, path.read_text(encoding="utf-8"))
    return found


def run(tree: Path, tests: tuple[str, ...], limit: int) -> int:
    """The exit code of the tests in a copy of the tree, in at most ``limit`` CPU seconds."""
    command = [sys.executable, "-m", "pytest", "-x", "-m", "not slow", "--hypothesis-seed=0"]
    env = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    limits = partial(resource.setrlimit, resource.RLIMIT_CPU, (limit, limit))
    return subprocess.run(
        [*command, *tests], cwd=tree, capture_output=True, env=env, preexec_fn=limits
    ).returncode


def seconds(tree: Path, tests: tuple[str, ...]) -> float:
    """The CPU seconds of the tests where nothing is changed, which they must pass."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    if run(tree, tests, 10**6):
        sys.exit(f"these tests fail without a mutant: {' '.join(tests)}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def reasons() -> dict[tuple[str, str], str]:
    """The reasons that the committed page gives, by file and change."""
    page = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    rows = re.findall(r"^\| (\S+):\d+ \| (.*) \| (.*) \|$", page, re.MULTILINE)
    return {(file, change): reason for file, change, reason in rows}


def page(fates: dict[Mutant, str], all_of_them: int, seed: int) -> str:
    """The result as Markdown: the counts, and the survivors with the reasons known so far."""
    alive = sorted((m for m in fates if fates[m] == "survived"), key=lambda m: (m.file, m.line))
    share, late, known = 1 - len(alive) / len(fates), list(fates.values()).count(LATE), reasons()
    return "\n".join([
        "# Mutants", "",
        f"`make mutants`: the first {len(fates)} of {all_of_them} mutants in the order of seed "
        f"{seed}. Killed: {len(fates) - len(alive)} ({share:.0%}), {late} of them by thrice the "
        "CPU seconds that the tests take. A reason is kept when the page is renewed.", "",
        "| place | survived | reason |", "|---|---|---|",
        *(f"| {m.file}:{m.line} | {m.change} | {known.get((m.file, m.change), '')} |"
          for m in alive), "",
    ])  # fmt: skip


def main() -> None:
    """Run the sample and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=whole(), default=300)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("-o", "--output", type=output, default=RESULTS)
    asked = parser.parse_args()
    found = all_mutants()
    random.Random(asked.seed).shuffle(found)
    fates: dict[Mutant, str] = {}
    usual: dict[tuple[str, ...], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in (PACKAGE, "tests", "paper_checks", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        for mutant in found[: asked.sample]:
            tests = tests_of(mutant.file)
            usual[tests] = usual.get(tests) or seconds(tree, tests)
            file = tree / PACKAGE / mutant.file
            source = file.read_text(encoding="utf-8")
            file.write_text(mutant.applied(source), encoding="utf-8")
            code = run(tree, tests, int(10 + 3 * usual[tests]))
            late = code == -signal.SIGXCPU
            fates[mutant] = LATE if late else "killed" if code else "survived"
            file.write_text(source, encoding="utf-8")
            print(f"{fates[mutant]}: {mutant.file}:{mutant.line} {mutant.change}", flush=True)
            asked.output.write_text(page(fates, len(found), asked.seed), encoding="utf-8")


if __name__ == "__main__":
    main()
