"""Errors planted in the source at random: how many of them do the fast tests see?

    python benchmarks/mutants.py [--sample 300] [--seed 0] [--seconds 60] [--again PAGE]
        [--kept DIR]

A mutant is one change: a number by 1, another operator or comparison, `and` for `or`, a sign or a
`not` lost, None for what is returned, or the condition of a refusal that never holds. The places
are shuffled by the seed, so that a smaller sample is the beginning of a larger one.

The fast tests run once, in a copy of the tree whose statements are marked, to see which test
executes which statement. Against a mutant run those that execute it, cheap and unlike ones first,
until one fails or the CPU seconds are spent, in a fork of a process that has imported everything
but the package. Tests that search the source for a text would see any change, and are left
out.
``--again`` meets the survivors of an earlier page once more. ``--kept`` is a folder where the same
command, of the same source, goes on after it was stopped.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import importlib
import json
import os
import pickle
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from itertools import accumulate, pairwise
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from arguments import output, whole

ROOT = Path(__file__).parents[1]
PACKAGE = "deepnet_theory"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.md"
# published values, which importing makes: judged, not computed
TRANSCRIBED = ("definitions/schemes/",)
TESTS = (
    *(
        f"tests/{room}"
        for room in (
            "definitions", "sizes", "proof", "runtime", "models", "laboratory", "report",
            "processes", "cli", "claims",
        )
    ),
    *(f"tests/test_{law}.py" for law in ("equivalence", "outputs", "rates", "workflow")),
    *(
        f"tests/site/test_{page}.py"
        for page in ("derivation_in_prose", "equations", "scheme_table")
    ),
)  # fmt: skip
OPTIONS = ("-m", "not slow and not notebooks", "--hypothesis-seed=0")
IMPORTED = ("sympy", "torch", "scipy.stats", "hypothesis", "jsonschema", "loky")
MEMORY = 8 * 2**30  # bytes: a power for a product may ask for all there is
NOT_RUN = ("annotation", "returns", "decorator_list")
DRAWN = ("Random", "randint", "uniform", "choice", "default_rng", "manual_seed")  # any serve
KEPT = "derivations"  # what tests share is made anew, for each to be seen to make it
LATE = "killed by the time limit"
CACHE = type(functools.cache(len))
Place = tuple[str, int]  # a file and the first line of a statement, 0 where importing runs it
Seen = dict[str, tuple[float, set[Place]]]  # by test: its CPU seconds, and what it executes
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
    statement: int  # its first line; 0 where it runs while the module is imported
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
    """The replacements of a node, or of a part."""
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


def nodes(tree: ast.AST, called: bool = False, at: int = 0) -> Iterator[tuple[ast.AST, int]]:
    """The nodes that run, and the statement of a function where they do, by its line.

    No annotation or decorator, no text, whose parts have no places, and no seed or range of random
    numbers that another serves as well.
    """
    called_name = getattr(getattr(tree, "func", None), "attr", None)
    for field, value in ast.iter_fields(tree):
        if field in NOT_RUN or isinstance(tree, ast.JoinedStr) or called_name in DRAWN:
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                line = node.lineno if called and isinstance(node, ast.stmt) else at
                yield node, line
                yield from nodes(node, called or isinstance(node, ast.FunctionDef), line)


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every change of a file."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0, *accumulate(len(line.decode()) for line in lines)]

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1][:column].decode())

    for outer, statement in nodes(ast.parse(source)):
        for node, wrong in changed(outer):
            assert isinstance(node, ast.expr) and node.end_lineno and node.end_col_offset
            start = offset(node.lineno, node.col_offset)
            right = source[start : offset(node.end_lineno, node.end_col_offset)]
            yield Mutant(file, node.lineno, statement, start, right, wrong)


def all_mutants() -> list[Mutant]:
    """Every change of the files that are judged."""
    found: list[Mutant] = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        file = path.relative_to(ROOT / PACKAGE).as_posix()
        changes = mutants(file, path.read_text(encoding="utf-8"))
        found += [m for m in changes if m.statement or not file.startswith(TRANSCRIBED)]
    return found


def mark(tree: ast.AST, file: str, called: bool = False) -> ast.AST:
    """The tree with ``__mark__((file, line))`` before each statement that functions execute."""
    called = called or isinstance(tree, ast.FunctionDef)
    for node in ast.iter_child_nodes(tree):
        mark(node, file, called)
    for field in ("body", "orelse", "finalbody") if called else ():
        if isinstance(block := getattr(tree, field, None), list):
            marks = [ast.parse(f"__mark__(({file!r}, {part.lineno}))").body[0] for part in block]
            both = [part for pair in zip(marks, block, strict=True) for part in pair]
            docstring = isinstance(tree, ast.FunctionDef) and ast.get_docstring(tree) is not None
            setattr(tree, field, both[docstring:])
    return ast.fix_missing_locations(tree)


def spent() -> float:
    """The CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


class Record:
    """A plugin of pytest: what each test that passes costs, and the statements that it executes."""

    def __init__(self) -> None:
        self.tests: Seen = {}
        self.failed: set[str] = set()
        self.collected: dict[str, set[Place]] = {}  # by file: what its tests are made of
        self.begin()

    @staticmethod
    def load(_: SourceFileLoader, source: bytes, path: str) -> CodeType:
        tree = ast.parse(source)
        _, package, file = path.rpartition(f"/{PACKAGE}/")
        return compile(mark(tree, file) if package else tree, path, "exec", dont_inherit=True)

    @staticmethod
    def begin() -> set[Place]:
        """The places to come, with nothing left in a cache by what came before."""
        for name in [name for name in sys.modules if name.startswith((PACKAGE, "test_", KEPT))]:
            for kept in vars(sys.modules[name]).values():
                if type(kept) is CACHE:
                    kept.cache_clear()
        places: set[Place] = set()
        builtins.__mark__ = places.add
        return places

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        self.collected[collector.nodeid] = self.begin()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        before, places = spent(), self.begin()
        ended = yield
        places |= self.collected[item.nodeid.split("::")[0]]
        places |= {(file, 0) for file, _ in places}
        self.tests[item.nodeid] = (spent() - before, places)
        return ended

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


class Chosen:
    """A plugin of pytest: of what it collects the chosen tests, in their order, in time."""

    def __init__(self, tests: Sequence[str], most: float) -> None:
        self.order, self.most = {test: place for place, test in enumerate(tests)}, most

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self.order]
        items[:] = sorted(chosen, key=lambda item: self.order[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        return True if spent() > self.most else None  # True: nothing else is to run it


def forked(tree: Path, limit: int, work: Callable[[], int]) -> int:
    """The exit code of work done in a copy of the tree, by a fork with ``limit`` CPU seconds."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        os.chdir(tree)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            del sys.modules[name]
        sys.path.insert(0, str(tree))
        os.environ |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        code = work()
    finally:
        os._exit(code)


def record(tree: Path) -> Seen:
    """What the fast tests cost and execute, the cheapest first; kept in the tree."""
    file = tree / "record.pickle"
    if file.exists():
        return dict(pickle.loads(file.read_bytes()))

    def work() -> int:
        SourceFileLoader.source_to_code = Record.load
        plugin = Record()
        code = pytest.main([*OPTIONS, *(t for t in TESTS if Path(t).exists())], [plugin])
        tests = {t: seen for t, seen in plugin.tests.items() if t not in plugin.failed}
        ordered = sorted(tests.items(), key=lambda test: test[1][0])
        file.write_bytes(pickle.dumps(dict(ordered)))
        return int(code)

    code = forked(tree, 10**6, work)
    seen: Seen = pickle.loads(file.read_bytes())
    if code not in (0, pytest.ExitCode.TESTS_FAILED) or not seen:
        file.unlink()
        raise SystemExit(f"the fast tests do not run without a mutant (exit code {code})")
    if code:
        print("some of the fast tests fail without a mutant", flush=True)
    return seen


def run(tests: Sequence[str], most: float) -> int:
    """The exit code of tests: a few first, since few suffice against most mutants."""
    for first, last in pairwise((0, 8, 64, len(tests))):
        part = tests[first:last]
        files = dict.fromkeys(test.split("::")[0] for test in part)
        code = pytest.main(["-x", *OPTIONS, *files], [Chosen(part, most)]) if part else 0
        if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            return int(code)
    return 0


def chosen(tests: Sequence[str], seen: Seen, most: float) -> list[str]:
    """The cheapest tests that fit into ``most`` CPU seconds and half as many again.

    The second case of a parametrised test counts as twice its cost, from the fourth on as four
    times: what the first case lets pass another test may see.
    """
    cases: dict[str, int] = {}
    weights = {}
    for test in tests:
        function = test.partition("[")[0]
        cases[function] = cases.get(function, 0) + 1
        weights[test] = min(cases[function], 4) * seen[test][0]
    order = sorted(tests, key=weights.__getitem__)
    spent = accumulate(seen[test][0] for test in order)
    return [test for test, cost in zip(order, spent, strict=True) if cost < 1.5 * most]


def fate(mutant: Mutant, tree: Path, seen: Seen, most: float) -> str:
    """What becomes of a mutant in a copy of the tree within the given CPU seconds.

    The tests are those that execute its statement; where importing the module does, those that
    execute a function of the module; all of them where it has no functions.
    """
    place = (mutant.file, mutant.statement)
    tests = [test for test, (_, places) in seen.items() if place in places]
    if not tests and mutant.statement == 0:
        tests = list(seen)
    few = chosen(tests, seen, most)
    file = tree / PACKAGE / mutant.file
    source = file.read_text(encoding="utf-8")
    file.write_text(mutant.applied(source), encoding="utf-8")
    code = forked(tree, int(20 + 3 * most), partial(run, few, most))
    file.write_text(source, encoding="utf-8")
    return LATE if code == -signal.SIGXCPU else "killed" if code else "survived"


def copied(tree: Path) -> Path:
    """The folder, with a copy of what the tests need."""
    for name in (PACKAGE, "tests", "paper_checks", "docs", "pyproject.toml"):
        copy = partial(
            shutil.copytree, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
        )
        (copy if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tree / name)
    return tree


def survivors(page: Path) -> list[tuple[str, int, str, str]]:
    """The file, line, change and reason of the survivors on a page."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    rows = re.findall(r"^\| (\S+):(\d+) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    return [(file, int(line), change, reason) for file, line, change, reason in rows]


def listed(page: Path, among: Sequence[Mutant]) -> list[Mutant]:
    """The survivors on a page, each the nearest to its line where the source has changed since."""
    found = []
    for file, line, change, _ in survivors(page):
        alike = [m for m in among if (m.file, m.change) == (file, change) and m not in found]
        found += sorted(alike, key=lambda m: abs(m.line - line))[:1]
    return found


def page(fates: dict[Mutant, str], of: str, most: int) -> str:
    """The result as Markdown: the counts, and the survivors with the reasons known so far."""
    alive = sorted((m for m in fates if fates[m] == "survived"), key=lambda m: (m.file, m.line))
    share, late = 1 - len(alive) / len(fates), list(fates.values()).count(LATE)
    known = {(file, change): reason for file, _, change, reason in survivors(RESULTS)}
    return "\n".join([
        "# Errors planted at random", "",
        'Random changes ("mutants") are planted in the source, one at a time. A mutant is *killed* '
        "if a fast test fails, and *survives* if all tests pass. "
        f"Of {len(fates)} mutants {len(fates) - len(alive)} were killed ({share:.0%}).", "",
        f"Each mutant ran against at most {most} CPU seconds of the tests that execute it; {late} "
        f"were killed by three times that time. The sample is the first {len(fates)} of {of}. Made "
        "by `make mutants`, which keeps the reasons.", "",
        "| file and line | surviving change | reason |", "|---|---|---|",
        *(f"| {m.file}:{m.line} | {m.change} | {known.get((m.file, m.change), '')} |"
          for m in alive), "",
    ])  # fmt: skip


def main() -> None:
    """Run the sample and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=whole(), default=300)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--seconds", type=whole(), default=60)
    parser.add_argument("--again", type=Path, metavar="PAGE", help="the survivors of this page")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="where a stopped run goes on")
    parser.add_argument("-o", "--output", type=output, default=RESULTS)
    asked = parser.parse_args()
    found = all_mutants()
    of = f"{len(found)} mutants in the order of seed {asked.seed}"
    random.Random(asked.seed).shuffle(found)
    if asked.again and not (found := listed(asked.again, found)):
        parser.error(f"{asked.again} lists no survivor that the source still has")
    of = f"{len(found)} survivors of {asked.again}" if asked.again else of
    for module in IMPORTED:
        importlib.import_module(module)
    fates: dict[Mutant, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        kept = asked.kept or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        tree, file = copied(kept), kept / "fates.json"
        seen = record(tree)
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        for mutant in found[: asked.sample]:
            if (key := repr(mutant)) not in known:
                known[key] = fate(mutant, tree, seen, asked.seconds)
                file.write_text(json.dumps(known), encoding="utf-8")
            fates[mutant] = known[key]
            print(f"{fates[mutant]}: {mutant.file}:{mutant.line} {mutant.change}", flush=True)
            asked.output.write_text(page(fates, of, asked.seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
