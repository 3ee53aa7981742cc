"""Cold wall time of ``derive``, against importing SymPy alone, interleaved in one run.

    python benchmarks/cold_start.py [--repeats 9] [--profile]

Each repeat starts fresh interpreters in turn; the medians' ratio is what counts, the times
themselves belong to the machine. ``--profile`` prints where the time of one ``derive`` goes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

from arguments import whole

LIMIT = 1.6
CASES = {
    "import sympy": ["-c", "import sympy"],
    "import deepnet_theory.cli": ["-c", "import deepnet_theory.cli"],
    "derive --optimizer sgd": ["-m", "deepnet_theory", "derive", "--optimizer", "sgd"],
    "derive --optimizer adam": ["-m", "deepnet_theory", "derive", "--optimizer", "adam"],
    "derive --optimizer lamb": ["-m", "deepnet_theory", "derive", "--optimizer", "lamb"],
    "its steps": ["-m", "deepnet_theory", "derive", "--optimizer", "lamb", "--steps"],
}
PROFILE = """
import time
began = last = time.perf_counter()
def lap(what):
    global last
    now = time.perf_counter()
    print(f"{what:42} {now - last:7.3f} s")
    last = now
import sympy
lap("import sympy")
from deepnet_theory.cli.commands import COMMANDS
from deepnet_theory.cli.parser import command_line
command_line(["derive"], COMMANDS)
lap("click and the command's parser")
from deepnet_theory.definitions.selection import Selection
selection = Selection(optimizer="adam")
lap("spec and its discovered folders")
from deepnet_theory.proof.derivation import derive
lap("import symbolic")
derivation = derive(selection)
lap("derive")
derivation.verdict
lap("check every step")
from deepnet_theory.report.rule import document
from deepnet_theory.report.text import text
text(document(derivation))
lap("render")
"""


def measure(arguments: list[str]) -> float:
    """Wall seconds of one fresh interpreter."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": "1"},
    )
    return time.perf_counter() - began


def medians(repeats: int) -> dict[str, float]:
    """The median of every case, the cases interleaved so that a busy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for arguments in CASES.values():  # compiled files and the disk's cache, once
        measure(arguments)
    for _ in range(repeats):
        for name, arguments in CASES.items():
            times[name].append(measure(arguments))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    """Print the table; 1 where ``derive`` is beyond the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=whole(), default=9)
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    if asked.profile:
        subprocess.run([sys.executable, "-c", PROFILE], check=True)
        return 0
    found = medians(asked.repeats)
    base = found["import sympy"]
    for name, seconds in found.items():
        print(f"{name:28} {seconds:6.3f} s   {seconds / base:5.2f} x import sympy")
    worst = max(seconds for name, seconds in found.items() if name.startswith("derive")) / base
    print(f"worst derive {worst:.2f}, limit {LIMIT}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
