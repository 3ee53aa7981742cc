"""How often the laboratory accepts a right rule, and rejects one that is wrong by an eighth.

    python benchmarks/power.py [adam] [lamb] [sgd] [--experiments 200] [--processes 2]

For each optimizer two hundred small experiments on its own rule, and two hundred on a rule whose
exponent of the model update is wrong by 1/8 (toward the side from which the finite depth's bend
leads back). The table goes to standard output and to ``benchmarks/results/power.md``.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from arguments import whole

from deepnet_theory.numeric.judging.power import Power, measure_power
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.files import write_text
from deepnet_theory.spec.rule import Rule, own_rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.implications.exponents import predictions

SMALL = Settings(width=32, heads=4, tokens=16, seeds=8, draws=2)
# SGD's values scatter more and bend longer: deeper, more seeds and draws, independent tokens
PLANS = {
    "adam": ((8, 16, 32), SMALL),
    "lamb": ((8, 16, 32), SMALL),
    "sgd": ((16, 32, 64), replace(SMALL, seeds=16, draws=8, data="gaussian:0")),
}
RESULTS = Path(__file__).parent / "results" / "power.md"
EIGHTH = Fraction(1, 8)
LITTLE = Fraction(1, 64)  # far larger branches follow another law


def predicted(selection: Selection, rule: Rule) -> Fraction:
    """The exponent of ‖ΔF‖ in N that the theory gives a rule."""
    exponent = predictions(selection, rule).exponents[0].exponent
    assert exponent is not None
    return exponent


def wrong_rule(selection: Selection, rule: Rule) -> Rule:
    """The rule with β changed by the power of N that makes ‖ΔF‖ grow as N^{1/8}."""
    alpha, beta = rule.entries[0].alpha, rule.entries[0].beta
    parts = tuple(part.name for part in selection.the_stack.parts)
    little = own_rule(parts, alpha, f"{beta}*N**({LITTLE})")
    slope = (predicted(selection, little) - predicted(selection, rule)) / LITTLE
    return own_rule(parts, alpha, f"{beta}*N**({EIGHTH / slope})")


def repeated(name: str, rule: Rule, experiments: int, processes: int) -> Power:
    layers, settings = PLANS[name]
    return measure_power(
        Selection(optimizer=name), rule, 0.0, [{"N": n} for n in layers], settings,
        experiments=experiments, processes=processes,
    )  # fmt: skip


def rows(name: str, experiments: int, processes: int) -> list[str]:
    """The right rule and the wrong one, each judged against a constant model update."""
    selection = Selection(optimizer=name)
    right = derive(selection).rule
    layers, settings = PLANS[name]
    found = []
    for rule, wanted in (
        (right, Verdict.SUPPORTED),
        (wrong_rule(selection, right), Verdict.REFUTED),
    ):
        power = repeated(name, rule, experiments, processes)
        share = power.share(wanted)
        mean = sum(power.exponents) / experiments
        found.append(
            f"| {name} | {rule.entries[0].alpha} | {rule.entries[0].beta} "
            f"| {float(predicted(selection, rule)):+.3f} | {mean:+.3f} "
            f"| {', '.join(map(str, layers))} | {settings.seeds} × {settings.draws} "
            f"| {settings.data} | {wanted.value} {power.verdicts.count(wanted)} of {experiments} "
            f"| {share.low:.1%} – {share.high:.1%} |"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("optimizer", nargs="*", default=list(PLANS), help=", ".join(PLANS))
    parser.add_argument("--experiments", type=whole(), default=200)
    parser.add_argument("--processes", type=whole(), default=2)
    asked = parser.parse_args()
    for name in asked.optimizer:
        if name not in PLANS:
            parser.error(f"unknown optimizer {name[:40]!r}; valid are: {', '.join(PLANS)}")
    lines = [
        "# The laboratory's power", "",
        f"`python benchmarks/power.py {' '.join(asked.optimizer)} "
        f"--experiments {asked.experiments}`: width 32, 4 heads, 16 tokens; the share of repeated "
        "experiments with the verdict that is right, with its exact binomial 95 % interval.", "",
        "| stepped by | α | β | predicted | mean exponent | layers | seeds × draws | data "
        "| verdict | interval |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in asked.optimizer:
        lines += rows(name, asked.experiments, asked.processes)
        print("\n".join(lines[-2:]), flush=True)
    write_text(RESULTS, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
