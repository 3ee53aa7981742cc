"""How often the laboratory accepts a right rule, and rejects one that is wrong by an eighth.

    python benchmarks/power.py [adam] [lamb] [sgd] [--experiments 200]

For each optimizer two hundred small experiments on its own rule, and two hundred on a rule whose
exponent of the model update is wrong by 1/8 (toward the side where the finite depth's bend
leads back). The table goes to standard output and to ``benchmarks/results/power.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
from arguments import whole
from scipy.special import betaincinv

from deepnet_theory.definitions.files import write_text
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.rule import Rule, own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.model_update import measure_model_update
from deepnet_theory.laboratory.settings import Depth, Settings, fitting_threads
from deepnet_theory.laboratory.statistics import Array, Interval, fit_exponent, judge
from deepnet_theory.laboratory.trial import Case
from deepnet_theory.processes.jobs import Job, Work, run_jobs
from deepnet_theory.proof.derivation import derive
from deepnet_theory.runtime.machine import in_threads
from deepnet_theory.sizes.exponents import predictions

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
STACKED = 10  # experiments that are measured together


@dataclass(frozen=True)
class Power:
    """The verdicts of repeated experiments on one rule against one predicted exponent."""

    verdicts: tuple[Verdict, ...]
    exponents: tuple[float, ...]

    def share(self, verdict: Verdict) -> Interval:
        """The share of experiments with ``verdict``, with its exact binomial 95% interval.

        Source: Clopper and Pearson, 1934.
        """
        n, k = len(self.verdicts), self.verdicts.count(verdict)
        low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, 0.025))
        high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 0.975))
        return Interval(k / n, low, high)


def measure_power(
    selection: Selection,
    rule: Rule,
    predicted: float,
    depths: Sequence[Depth],
    settings: Settings,
    *,
    rivals: Sequence[tuple[str, float]] = (),
    experiments: int = 200,
    **work: Unpack[Work],
) -> Power:
    """Repeat the measurement of one exponent with fresh data and weights, and judge each.

    Every experiment has ``settings.seeds`` seeds of its own; several are stacked into one
    batch, which changes nothing, since seeds never meet. ``work`` says who does the batches.
    """
    batches: dict[int, Array] = {}  # by the number of its first experiment
    jobs = []
    for first in range(0, experiments, STACKED):
        count = min(STACKED, experiments - first)
        together = replace(settings, seeds=count * settings.seeds, seed=settings.seed + first)
        with fitting_threads(together) as threads:
            some = partial(_repeat, selection, rule, tuple(depths), together, count)
            keep = partial(batches.__setitem__, first)
            jobs.append(
                Job("repeated experiments", count, partial(in_threads, threads, some), keep)
            )
    if stopped := run_jobs(jobs, experiments, **work):
        raise SystemExit(stopped)
    variable = selection.the_stack.depths[0]
    layers = [depth[variable] for depth in depths]
    fits = [fit_exponent(layers, one) for first in sorted(batches) for one in batches[first]]
    return Power(
        tuple(judge(fit.interval, predicted, rivals)[0] for fit in fits),
        tuple(fit.interval.estimate for fit in fits),
    )


def _repeat(
    selection: Selection,
    rule: Rule,
    depths: Sequence[Depth],
    together: Settings,
    count: int,
) -> Array:
    """‖ΔF‖/η of ``count`` experiments, (experiments, seeds, depths)."""
    updates = [
        measure_model_update(Case(selection, rule, depth, together), draws=together.draws)
        for depth in depths
    ]
    values = np.array(updates)
    return values.T.reshape(count, -1, len(depths))


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
    selection = Selection(optimizer=name, closure="published")
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
        "Each row repeats one experiment, with a right rule or with a rule that is wrong by "
        "N^(1/8), and counts the right verdicts. The interval is the exact binomial 95 % interval "
        "of that share.", "",
        f"Set-up: width 32, 4 heads, 16 tokens. Made by `python benchmarks/power.py "
        f"{' '.join(asked.optimizer)} --experiments {asked.experiments}`.", "",
        "| optimizer | α | β | predicted exponent | mean measured exponent | layers "
        "| seeds × draws | data | right verdicts | share (95 %) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in asked.optimizer:
        lines += rows(name, asked.experiments, asked.processes)
        print("\n".join(lines[-2:]), flush=True)
    write_text(RESULTS, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
