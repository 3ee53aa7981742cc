"""How long the derivations take once SymPy is imported, and how they grow.

    python benchmarks/symbolic.py

Every built-in derivation with all its checks, the cross table of all optimizers, and the growth
with the number of distinct sublayers of a layer; processor seconds of this one process.
"""

from __future__ import annotations

import itertools
import time

import sympy

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.selection import METHODS, Selection
from deepnet_theory.spec.stack import stacks
from deepnet_theory.symbolic.cross import cross_table
from deepnet_theory.symbolic.derive import derive

ORDER = ("ffn", "attention", "ffn:swiglu")


def seconds(selection: Selection) -> float:
    """Processor seconds of a derivation with its checks."""
    start = time.process_time()
    derive(selection).verdict  # noqa: B018
    return time.process_time() - start


def main() -> None:
    """Print the figures."""
    print(f"sympy {sympy.__version__}")
    for method in METHODS:
        times: dict[str, float] = {}
        refused = 0
        for optimizer, placement, stack in itertools.product(optimizers(), placements(), stacks()):
            selection = Selection(
                optimizer=optimizer, placement=placement, stack=stack, method=method
            )
            try:
                times[f"{optimizer}, {placement}, {stack}"] = seconds(selection)
            except Refusal:
                refused += 1
        slowest = max(times, key=times.__getitem__)
        mean = sum(times.values()) / len(times)
        print(
            f"{method}: {len(times)} derivations ({refused} refused), mean {mean:.2f} s, slowest "
            f"{times[slowest]:.2f} s ({slowest})"
        )
    start = time.process_time()
    table = cross_table()
    print(f"cross table of {len(table.cells)} cells: {time.process_time() - start:.2f} s")
    for count in range(1, len(ORDER) + 1):
        layer = ",".join(ORDER[:count])
        for repeat in (1, 20):
            long = ",".join([layer] * repeat)
            took = seconds(Selection(optimizer="adam", layer=long))
            print(f"{count} distinct sublayers, {count * repeat} in all: {took:.2f} s")


if __name__ == "__main__":
    main()
