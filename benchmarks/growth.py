"""What the work costs as it grows: layers, width, distinct sublayers; and what a user waits for.

    python benchmarks/growth.py [--layers 8,64,512,4000] [--widths 32,128,512] [--kinds 1,2,4,12]

Every point is a fresh process of one thread; processor seconds, and what its memory grew by. A
model update is one draw of ``--seeds`` seeds and the twin, with the search for the size of a linear
step, whose steps are counted. The slope is that of the straight line through the logarithms, from
64 layers or width 64 on. The README's commands are run one after the other, and once more with what
the first has kept. To standard output and ``benchmarks/results/growth.md``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from arguments import whole, wholes

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "growth.md"
FROM = 64  # below it what a process pays once is seen in the slope


def model_update(layers: int, width: int, seeds: int) -> dict[str, float]:
    """One measured draw: processor seconds and MiB."""
    from deepnet_theory.definitions.rule import own_rule
    from deepnet_theory.definitions.selection import Selection
    from deepnet_theory.laboratory import model_update as room
    from deepnet_theory.laboratory.settings import Settings
    from deepnet_theory.laboratory.trial import Case

    rule = own_rule(("encoder",), "(2*N)**(1/2)", "(2*N)**(-1/2)")
    settings = Settings(width=width, heads=4, seeds=seeds, device="cpu")

    def case(n: int) -> Case:
        return Case(Selection(optimizer="adam"), rule, {"N": n}, settings)

    room.measure_model_update(case(2))  # libraries and buffers are there before the counting
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    began = time.process_time()
    room.measure_model_update(case(layers))
    return {
        "seconds": time.process_time() - began,
        "MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 2**20,
    }


def derivation(kinds: int) -> dict[str, float]:
    """A derivation over n distinct sublayers, with all its checks."""
    from deepnet_theory.cli.deriving import derive
    from deepnet_theory.definitions import sublayer as room

    room.SUBLAYERS = known = dict(room.SUBLAYERS)
    names = ["attention", "ffn", "ffn-swiglu"][:kinds]
    for i in range(kinds - len(names)):  # planted: other kinds with the matrices of these
        names.append(f"{names[i % 3]}-{i}")
        known[names[-1]] = replace(known[names[i % 3]], name=names[-1])
    derive(optimizer="adam")
    began = time.process_time()
    assert derive(optimizer="adam", layer=",".join(names)).verdict
    return {"seconds": time.process_time() - began}


def fresh(work: str) -> dict[str, float]:
    """The result of a call in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"import json, growth; print(json.dumps(growth.{work}))"],
        capture_output=True, text=True, check=True, cwd=ROOT / "benchmarks",
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    print(work, done.stdout.strip(), file=sys.stderr, flush=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of log value on log size, from ``FROM`` on if two sizes are."""
    points = [(math.log(n), math.log(v)) for n, v in zip(sizes, values, strict=True) if n >= FROM]
    if len(points) < 2:
        return math.nan
    x, y = (sum(c) / len(points) for c in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def table(name: str, sizes: Sequence[int], rows: Sequence[dict[str, float]]) -> Iterator[str]:
    """Seconds, memory and steps by size, and the slopes."""
    yield f"| {name} | CPU time (s) | memory (MiB) |"
    yield "|---|---|---|"
    each = [row["seconds"] for row in rows]
    for n, row in zip(sizes, rows, strict=True):
        yield f"| {n} | {row['seconds']:.2f} | {row['MiB']:.0f} |"
    memory = [max(row["MiB"], 1.0) for row in rows]
    yield ""
    yield (
        f"Slope from {FROM} on: {slope(sizes, each):.2f} in the time of a step, "
        f"{slope(sizes, memory):.2f} in memory."
    )
    yield ""


def commands() -> Iterator[str]:
    """What the README's commands take, and take again with what is kept."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    yield "| command | CPU time (s) | again (s) |"
    yield "|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DEEPNET_THEORY_CACHE": f"{folder}/cache"}
        environment["PYTHONPATH"] = str(ROOT)
        for line in re.findall(r"^deepnet-theory (.*?)(?: +#.*)?$", text, flags=re.MULTILINE):
            words = [sys.executable, "-m", "deepnet_theory", *shlex.split(line)]
            took = []
            for _ in range(2):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            yield f"| `{line}` | {took[0]:.1f} | {took[1]:.1f} |"
            print(line, took, file=sys.stderr, flush=True)


def report(layers: list[int], widths: list[int], kinds: list[int], seeds: int) -> Iterator[str]:
    """The page, line by line."""
    import torch

    yield "# Cost as the work grows"
    yield ""
    words = " ".join(sys.argv[1:])
    yield (
        "The cost of a measurement, a derivation and a command by depth and width. Times are "
        "seconds of CPU time, memory is the peak in MiB. A slope is the "
        "exponent in the number of layers, or in the width."
    )
    yield ""
    yield (
        f"Set-up: Adam under √(2N), 1/√(2N), {seeds} seeds and the twin, 32 tokens, float32; "
        f"{platform.machine()}, {os.cpu_count()} cores under a load of {os.getloadavg()[0]:.0f}, "
        f"one thread, torch {torch.__version__}. Made by "
        f"`{f'python benchmarks/growth.py {words}'.strip()}`."
    )
    yield ""
    rows = [fresh(f"model_update({n}, 64, {seeds})") for n in layers]
    yield from table("layers, width 64", layers, rows)
    rows = [fresh(f"model_update(16, {d}, {seeds})") for d in widths]
    yield from table("width, 16 layers", widths, rows)
    yield "A derivation by its number of distinct sublayers, without the imports:"
    yield ""
    yield "| distinct sublayers | CPU time (s) |"
    yield "|---|---|"
    took = [fresh(f"derivation({n})")["seconds"] for n in kinds]
    for n, one in zip(kinds, took, strict=True):
        yield f"| {n} | {one:.2f} |"
    yield ""
    yield "Commands, imports included: the first time, and again with the kept results:"
    yield ""
    yield from commands()
    yield ""
    yield "On a GPU: *not measured*."


def main() -> None:
    """Print the page and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=wholes, default="8,16,32,64,128,256,512,1000,2000,4000")
    parser.add_argument("--widths", type=wholes, default="32,64,128,256,512")
    parser.add_argument("--kinds", type=wholes, default="1,2,3,4,6,8,10,12")
    parser.add_argument("--seeds", type=whole(2), default=2)
    asked = parser.parse_args()
    lines = list(report(asked.layers, asked.widths, asked.kinds, asked.seeds))
    text = "\n".join(lines) + "\n"
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
