"""How long the derivations take once SymPy is imported, and how they grow.

    python benchmarks/symbolic.py [-o benchmarks/results/symbolic.md]

Every built-in selection that is not refused, one after the other in one process; then the slowest
of each method, each in a process of its own that has imported SymPy and nothing of ours: processor
seconds of our imports, the derivation and all its checks. Selections whose closure is given take
one optimizer for each pair of degrees (p, q). Then the cross table of all optimizers, and the
growth with the number of distinct sublayers of a layer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import time
from collections.abc import Iterator
from typing import Any

import sympy
from arguments import output

SHOWN, RUNS = 12, 3
LAYERS = ("ffn", "attention", "ffn:swiglu")


def fresh(work: Any) -> Any:
    """What ``work`` returns in a forked process, which dies with all it cached."""
    read, write = os.pipe()
    if os.fork() == 0:
        with os.fdopen(write, "w", encoding="utf-8") as answer:
            json.dump(work(), answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as answer:
        found = json.load(answer)
    os.wait()
    return found


def selections() -> list[dict[str, str]]:
    """Every combination of built-in names that has a rule."""
    return [select for select in _combinations() if _has_rule(select)]


def _combinations() -> Iterator[dict[str, str]]:
    from deepnet_theory.definitions.optimizer import OPTIMIZERS
    from deepnet_theory.definitions.placement import PLACEMENTS
    from deepnet_theory.definitions.rule import CLOSURES
    from deepnet_theory.definitions.selection import METHODS, STACKS
    from deepnet_theory.sizes.update import law as degrees

    classes: dict[Any, str] = {}
    for optimizer in OPTIMIZERS.values():
        found = degrees(optimizer)
        classes.setdefault((found.p, found.q), optimizer.name)
    for method, stack, placement in itertools.product(METHODS, STACKS, PLACEMENTS):
        select = {"method": method, "stack": stack, "placement": placement}
        for name in OPTIMIZERS:
            yield {**select, "optimizer": name}
        for name, closure in itertools.product(classes.values(), CLOSURES):
            yield {**select, "optimizer": name, "closure": closure}


def _has_rule(select: dict[str, str]) -> bool:
    from deepnet_theory.definitions.outcome import Refusal
    from deepnet_theory.definitions.selection import Selection
    from deepnet_theory.proof.derivation import derive

    try:
        selection = Selection(**select)  # type: ignore[arg-type]
        derive(selection)
    except Refusal:
        return False
    return True


def seconds(select: dict[str, str]) -> float:
    """Processor seconds of a derivation with its checks, our own imports included."""
    start = time.process_time()
    from deepnet_theory.definitions.selection import Selection
    from deepnet_theory.proof.derivation import derive

    derive(Selection(**select)).verdict  # type: ignore[arg-type]  # noqa: B018
    return time.process_time() - start


def _all() -> list[tuple[float, dict[str, str]]]:
    return [(seconds(select), select) for select in selections()]


def _cross_table() -> tuple[int, float]:
    start = time.process_time()
    from deepnet_theory.definitions.optimizer import OPTIMIZERS
    from deepnet_theory.sizes.exponents import cross_table

    return len(cross_table(OPTIMIZERS)), time.process_time() - start


def _growth() -> list[tuple[int, int, float]]:
    rows = []
    for count, repeat in itertools.product(range(1, len(LAYERS) + 1), (1, 20)):
        select = {"optimizer": "adam", "layer": ",".join(LAYERS[:count] * repeat)}
        took = min(fresh(lambda select=select: seconds(select)) for _ in range(3))
        rows.append((count, count * repeat, took))
    return rows


def report() -> Iterator[str]:
    """The page, line by line."""
    yield "# Time of the derivations"
    yield ""
    yield (
        "Derivations with every check. The first table has all selections in one process, the "
        "second the slowest of each method in a fresh process. Times are seconds of CPU time."
    )
    yield ""
    yield (
        f"Set-up: SymPy {sympy.__version__}, Python {platform.python_version()} on "
        f"{platform.machine()}. Made by `python benchmarks/symbolic.py -o "
        "benchmarks/results/symbolic.md`."
    )
    yield ""
    yield "One after the other in one process:"
    yield ""
    # a forked process does it, so that this one stays as it began
    took = [(time_, select) for time_, select in fresh(_all)]
    yield "| method | stack | derivations | mean (s) | slowest (s) |"
    yield "|---|---|---|---|---|"
    groups: dict[tuple[str, str], list[float]] = {}
    for time_, select in took:
        groups.setdefault((select["method"], select["stack"]), []).append(time_)
    for (method, stack), times in groups.items():
        mean = sum(times) / len(times)
        yield f"| {method} | {stack} | {len(times)} | {mean:.2f} | {max(times):.2f} |"
    yield ""
    yield (
        f"The {SHOWN} slowest of each method, each in processes that have imported SymPy alone "
        f"(our imports included, best of {RUNS}):"
    )
    yield ""
    yield "| CPU time (s) | selection |"
    yield "|---|---|"
    for method in dict.fromkeys(select["method"] for _, select in took):
        own = [row for row in took if row[1]["method"] == method]
        for _, select in sorted(own, key=lambda row: -row[0])[:SHOWN]:
            best = min(fresh(lambda select=select: seconds(select)) for _ in range(RUNS))
            yield f"| {best:.2f} | {', '.join(select.values())} |"
    cells, time_ = fresh(_cross_table)
    yield ""
    yield f"Cross table of {cells} cells: {time_:.2f} s."
    yield ""
    yield "| distinct sublayers | sublayers of the layer | seconds |"
    yield "|---|---|---|"
    for count, total, time_ in _growth():
        yield f"| {count} | {total} | {time_:.2f} |"


def main() -> None:
    """Print the page, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=output)
    given = parser.parse_args()
    lines = []
    for line in report():
        print(line, flush=True)
        lines.append(line)
    if given.output:
        given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
