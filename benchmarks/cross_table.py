"""Every rule under every optimizer: the predicted exponent of ‖ΔF‖ against the measured one.

    python benchmarks/cross_table.py [--depths 8,16,32,64,128,256,512] [--seeds 4] [-o FILE.md]

One row an optimizer class: optimizers whose first step is the same expression up to a constant
(Adam, AdamW, Adagrad, Lion, signSGD; SGD and momentum) share a row, and their exponents with it.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import replace

import torch
from arguments import depths, output, whole

from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.settings import Settings, parse_depths
from deepnet_theory.laboratory.verify import verify
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.exponents import predictions

RULES = ("sgd", "adam", "lamb")
UNDER = ("sgd", "adam", "lamb", "lars", "adafactor", "muon")


def main() -> None:
    """Measure all cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depths", type=depths, default="8,16,32,64,128,256,512")
    parser.add_argument("--seeds", type=whole(2), default=4)
    parser.add_argument("-o", "--output", type=output)
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = Settings(seeds=given.seeds)
    lines = [
        "# A rule under another optimizer: how the output change scales with depth",
        "",
        "Train a model with the rule of the column and the optimizer of the row. A cell is the "
        "exponent of ‖ΔF‖ in the depth N: predicted → measured, with its 95 % interval. 0 is "
        "constant: the rule fits the optimizer. A positive number means that one update changes "
        "the output more in a deeper model.",
        "",
        "SUPPORTED: the interval is inside the tolerance and rival exponents are outside. *From* "
        "is the fewest layers of the fit.",
        "",
        f"Set-up: post-LN encoder on text, width {settings.width}, {settings.tokens} tokens, "
        f"{settings.seeds} paired seeds, depths {given.depths}, the branch matrices are stepped, "
        f"torch {torch.__version__} on {platform.processor() or platform.machine()}, one thread. "
        f"Made by `python benchmarks/cross_table.py --depths {given.depths} "
        f"--seeds {given.seeds}`.",
        "",
        "| optimizer | " + " | ".join(f"rule of {r}" for r in RULES) + " |",
        "|---|" + "---|" * len(RULES),
    ]
    for under in UNDER:
        cells = []
        for name in RULES:
            start = time.perf_counter()
            selection = Selection(optimizer=under)
            rule = Answer(Selection(optimizer=name, closure="published")).rule
            expected = replace(predictions(selection, rule), assumptions=())
            layers = parse_depths(given.depths, selection.the_stack)
            result = verify(selection, rule, expected, layers, settings)
            e = result.exponents[0]
            cells.append(
                f"{e.predicted:+.2f} → {e.estimate:+.3f} [{e.low:+.3f}, {e.high:+.3f}] "
                f"{e.verdict.value} from {e.fitted_from}"
            )
            print(under, name, cells[-1], f"{time.perf_counter() - start:.0f} s", flush=True)
        alike = [
            o.name
            for o in OPTIMIZERS.values()
            if o.update == OPTIMIZERS[under].update and o.name != under
        ]
        label = under + (f" (as {', '.join(alike)})" if alike else "")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
