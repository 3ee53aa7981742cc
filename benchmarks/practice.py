r"""Placement, head and learning rate with AdamW, warm-up, cosine, clipping, decay.

    python benchmarks/practice.py [--minutes 0] [--seeds 4] [-o benchmarks/results/practice.md]

Byte language models, decoders of 4 to 48 layers, each arm at its own best rate. Every run is kept
in the user's cache, and the same command goes on there: about two hours on one core. With
``--minutes`` no run begins later than that; the page has the finished runs. The text above its mark
is written by hand, and stays.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from arguments import output, whole
from recipe import EVERY, ONE, Arm, Run, text, train

from deepnet_theory.laboratory.statistics import t_interval
from deepnet_theory.processes.keep import default_folder

LOWEST, HIGHEST = 0.5e-3, 1.024  # of the grid of rates, which doubles
DEAD = 0.25  # nats below the unigram: a run that has learnt no more than this has collapsed
PAGE = Path(__file__).parent / "results" / "practice.md"


class Record:
    """The runs that are kept: lines of a file, each a run of one arm, rate and seed."""

    def __init__(self, file: Path, until: float) -> None:
        self.file, self.until = file, until
        self.made = {"text": text(64).digest[:16], "torch": torch.__version__}
        self.runs: dict[Arm, dict[float, dict[int, Run]]] = {}
        for line in file.read_text("utf-8").splitlines() if file.exists() else ():
            row = json.loads(line)
            if row["made"] == self.made:
                self._keep(Arm(**row["arm"]), row["rate"], row["seed"], Run(**row["run"]))

    def _keep(self, arm: Arm, rate: float, seed: int, run: Run) -> None:
        self.runs.setdefault(arm, {}).setdefault(rate, {})[seed] = run

    def has(self, arm: Arm, rate: float, seed: int) -> bool:
        return seed in self.runs.get(arm, {}).get(rate, {})

    def add(self, arm: Arm, rate: float, seed: int, run: Run) -> None:
        """Keep a run, here and in the file."""
        self._keep(arm, rate, seed, run)
        row = {"arm": asdict(arm), "rate": rate, "seed": seed, "run": asdict(run)}
        with self.file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps({**row, "made": self.made}) + "\n")

    def ensure(self, arm: Arm, rate: float, seeds: int) -> bool:
        """Run what is missing of the first ``seeds``; whether anything was."""
        missing = [s for s in range(seeds) if not self.has(arm, rate, s)]
        for seed in missing:
            if time.monotonic() > self.until:
                raise TimeoutError
            run = train(arm, rate, seed)
            self.add(arm, rate, seed, run)
            print(arm.rule, arm, f"{rate:g} {seed}: {run}", flush=True)
        return bool(missing)

    def mean(self, arm: Arm, rate: float) -> float:
        """The mean loss of a rate, collapsed seeds included, none above the unigram."""
        most = text(arm.tokens).baseline
        found = (run.loss for run in self.runs[arm][rate].values())
        return statistics.fmean(loss if loss < most else most for loss in found)

    def best(self, arm: Arm) -> float:
        """The rate with the lowest mean loss over its seeds, the first of equal ones."""
        return min(sorted(self.runs[arm]), key=lambda rate: self.mean(arm, rate))

    def finished(self, arm: Arm, seeds: int) -> bool:
        """Whether the best rate has all its seeds, and a neighbour on both sides."""
        if arm not in self.runs:
            return False
        best, near = self.best(arm), self.runs[arm]
        inside = all(r in near for r in (best / 2, 2 * best) if LOWEST <= r <= HIGHEST)
        return inside and len(near[best]) >= seeds

    def at_best(self, arm: Arm) -> dict[int, Run]:
        """The runs at the best rate, by seed."""
        return self.runs[arm][self.best(arm)]

    def is_dead(self, arm: Arm, run: Run) -> bool:
        """Whether a run ended no better than the unigram, or without a loss."""
        return not run.loss < text(arm.tokens).baseline - DEAD

    def settle(self, arm: Arm, rate: float, few: int, seeds: int) -> None:
        """Find the best rate: by one seed from ``rate`` on, then by ``few``, and by all there."""
        rate = self.best(arm) if arm in self.runs else rate
        for least, most in ((1, 1), (few, seeds)):
            while True:
                near = [r for r in (rate / 2, 2 * rate) if LOWEST <= r <= HIGHEST]
                new = self.ensure(arm, rate, most)
                new |= sum(self.ensure(arm, r, least) for r in near) > 0
                if not new and rate == self.best(arm):
                    break
                rate = self.best(arm)


def interval(samples: Sequence[float], signed: bool = False) -> str:
    """A mean and its 95 % interval."""
    i, sign = t_interval(samples), "+" if signed else ""
    if len(samples) < 2:
        return f"{i.estimate:{sign}.3f}" if samples else "–"
    return f"{i.estimate:{sign}.3f} ({i.low:{sign}.3f} to {i.high:{sign}.3f})"


POST, PRE = Arm("post-LN complete"), Arm("pre-LN complete")
GPT_2, DEEPNORM = Arm("GPT-2", head="0.02"), Arm("DeepNorm")
XAVIER, PLAIN = Arm("Xavier pre-LN"), Arm("plain post-LN")
BIASED, BIASED_DEEPNORM = replace(POST, bias=True), replace(DEEPNORM, bias=True)
Plan = Sequence[tuple[Arm, float, int]]  # an arm, where its search begins, seeds at the neighbours


def many(arms: Sequence[tuple[Arm, float]], few: int, **changed: object) -> Plan:
    """A plan of these arms, changed."""
    return [(replace(arm, **changed), rate, few) for arm, rate in arms]  # type: ignore[arg-type]


FIRST = [(POST, 16e-3), (PRE, 16e-3), (GPT_2, 4e-3), (DEEPNORM, 4e-3), (XAVIER, 4e-3)]
DECIDE = [(POST, 16e-3), (PRE, 16e-3), (BIASED, 16e-3), (GPT_2, 4e-3)]
STUDY: dict[str, Plan] = {
    "16 layers, width 64": [
        *many(DECIDE, 4), *many(FIRST[3:], 1),
        *many([(Arm("CompleteP"), 16e-3), (Arm("Llama", head="0.02"), 2e-3)], 1),
        *many([(Arm("GPT-2"), 4e-3), (PLAIN, 1e-3)], 1),
    ],
    "The head": [
        (replace(arm, head=head, bias=bias), rate, 1)
        for arm, bias, head, rate in (
            (POST, False, "0.02", 8e-3), (POST, False, "0", 4e-3), (POST, True, "0", 16e-3),
            (PRE, True, "xavier", 16e-3), (PRE, False, "0.02", 16e-3), (PRE, False, "0", 16e-3),
            (DEEPNORM, True, "xavier", 8e-3),
        )
    ],
    "Tokens and positions: of standard deviation 1/√width, without a norm": [
        *many(DECIDE[:3], 1, embedding=0.0), *many(DECIDE[:2], 1, positions="raw"),
    ],
    "The constant": [
        (replace(arm, constant=constant), rate, 1)
        for arm, constant, rate in (
            (BIASED, 4.0, 8e-3), (PRE, 4.0, 8e-3), (POST, 4.0, 8e-3), (PRE, 0.25, 16e-3),
        )
    ],
    "4 layers": many([*FIRST, (BIASED_DEEPNORM, 8e-3)], 1, depth=4),
    "48 layers": [
        *many([(POST, 16e-3), (PRE, 16e-3), (BIASED_DEEPNORM, 4e-3)], 1, depth=48),
        *many([(GPT_2, 2e-3)], 1, depth=48),
    ],
    "One matrix a branch": [
        (Arm(f"{ONE}, 1/{n}", depth=depth), 16e-3, 4) for depth in (4, 16, 64)
        for n in ("√N", "N")
    ],
    "Muon for hidden matrices": many([(POST, 8e-3), (PRE, 8e-3), (GPT_2, 2e-3)], 1,
                                     optimizer="muon"),
    "Without warm-up": [
        *many([(POST, 16e-3), (PRE, 16e-3)], 1, warmup=False),
        *many([(POST, 8e-3)], 1, warmup=False, head="0.02"),
    ],
    "Tied head": many([DECIDE[i] for i in (0, 1, 3)], 1, head="tied"),
    "48 layers, with a bias": many([(BIASED, 16e-3)], 1, depth=48),
    "Width 128": many([DECIDE[i] for i in (0, 1, 3, 2)], 1, width=128),
    "Half the tokens in a step": many(DECIDE[:3], 1, tokens=32),
    "A smaller constant, post-LN": many(DECIDE[:1], 1, constant=0.25),
    "Small heads with a bias": [
        (replace(arm, head=head, bias=True), 16e-3, 1)
        for arm, head in ((POST, "0.02"), (PRE, "0.02"), (PRE, "0"))
    ],
    "Fixed positions": many(DECIDE[:1], 1, embedding=0.0, positions="sinusoids"),
    "48 layers, published rules": many(FIRST[3:], 1, depth=48),
}  # fmt: skip
SHORT = {
    "depth": "{} layers", "head": "head {}", "width": "width {}", "constant": "{:g}/N",
    "positions": "{}", "embedding": "embedding of 1/√width", "optimizer": "{}",
    "batch": "{} windows", "tokens": "of {} bytes", "steps": "{} steps",
    "linear_bias": "biases in the branches", "activation": "{}",
    "outer": "embedding and head at {:g}",
}  # fmt: skip


def name(arm: Arm) -> str:
    """An arm in words: its rule, and what is not as in the first table."""
    head = {"xavier": "", "tied": "tied head"}.get(arm.head, f"head {arm.head}")
    own = [head, "log-unigram bias" if arm.bias else "", "" if arm.warmup else "no warm-up"]
    for field, words in SHORT.items():
        value = getattr(arm, field)
        if field != "head" and value != getattr(POST, field):
            own.append(words.format(value))
    return ", ".join([arm.rule, *filter(None, own)])


def row(record: Record, arm: Arm) -> str:
    """An arm's line: best rate, loss, difference from the first arm, collapsed seeds, R."""
    runs, rate = record.at_best(arm), record.best(arm)
    alive = {s: r for s, r in runs.items() if not record.is_dead(arm, r)}
    first = replace(PRE, depth=arm.depth, width=arm.width, tokens=arm.tokens, batch=arm.batch)
    beside = ""
    if arm != first and first in record.runs and not arm.rule.startswith("one"):
        other = record.at_best(first)
        both = [s for s in alive if s in other and not record.is_dead(first, other[s])]
        beside = interval([alive[s].loss - other[s].loss for s in both], signed=True)
    by_rate = []
    for r, of in sorted(record.runs[arm].items()):
        dead = sum(record.is_dead(arm, run) for run in of.values())
        lives = [run.loss for run in of.values() if not record.is_dead(arm, run)]
        loss = f"{statistics.fmean(lives):.2f}" if lives else ""
        told = f"{dead} of {len(of)} collapsed" if dead else ""
        by_rate.append(f"{1e3 * r:g}: " + ", ".join(filter(None, (loss, told))))
    dead = f"; {len(runs) - len(alive)} of {len(runs)} collapsed" if len(alive) < len(runs) else ""
    weight = max(run.weight for run in runs.values())
    return (
        f"| {name(arm)} | {1e3 * rate:g} | {interval([r.loss for r in alive.values()])}{dead} "
        f"| {beside} | {'; '.join(by_rate)} | {weight:.1f} |"
    )


def vertex(rates: Sequence[float], losses: Sequence[float]) -> float:
    """The rate of the lowest loss of a parabola in the rate's logarithm."""
    a, b, _ = np.polyfit(np.log(rates), losses, 2)
    return math.exp(-b / (2 * a))


def vertices(record: Record, arm: Arm, seeds: int) -> list[float]:
    """Every seed's best rate: of the parabola through the best rate of all and its neighbours."""
    runs, rate = record.runs.get(arm, {}), record.best(arm) if arm in record.runs else 1.0
    near = [rate / 2, rate, 2 * rate]
    if not all(len(runs.get(r, {})) >= seeds for r in near):
        return []
    return [vertex(near, [runs[r][seed].loss for r in near]) for seed in range(seeds)]


def exponents(record: Record, seeds: int) -> Iterator[str]:
    """The best rate of one-matrix branches against depth, and what the scalings differ by."""
    depths = (4, 16, 64)
    for n in ("√N", "N"):
        best = [vertices(record, Arm(f"{ONE}, 1/{n}", depth=d), seeds) for d in depths]
        if all(best):
            x = np.log(depths)
            slopes = [float(np.polyfit(x, np.log(of), 1)[0]) for of in zip(*best, strict=True)]
            means = ", ".join(f"{1e3 * statistics.geometric_mean(of):.3g}" for of in best)
            yield (
                f"- 1/{n}: the best rates at {', '.join(map(str, depths))} layers are {means}: as "
                f"N to the {interval(slopes, signed=True)}."
            )
    for depth in depths:
        one, other = (Arm(f"{ONE}, 1/{n}", depth=depth) for n in ("√N", "N"))
        if record.finished(one, seeds) and record.finished(other, seeds):
            a, b = record.at_best(one), record.at_best(other)
            gap = interval([a[s].loss - b[s].loss for s in range(seeds)], signed=True)
            yield f"- {depth} layers: the loss of 1/√N minus that of 1/N is {gap}."


TITLE = "# Training with warm-up and cosine: placement, head and learning rate"
INTRO = """\
## Set-up

Byte language models on {name} (digest {digest}, unigram entropy {unigram:.3f} nats): decoders with
RMS norms, relu, no biases in the branches, learned positions as large as the tokens. AdamW (0.9,
0.95), weight decay 0.1, warm-up over a tenth of the steps, cosine to a tenth, clipping at 1;
{steps} steps of {batch} windows of {tokens} bytes, one core, torch {torch}. By default the head
starts at Xavier's size, tokens and positions at standard deviation 0.02, and their sum is
normalised. GPT-2's and Llama's models start everything at 0.02 and normalise nothing there.

- *Learning rates* are in 10⁻³, on a grid of factors 2. Each arm is at the rate with the lowest mean
  loss, with a higher loss on both sides: {seeds} seeds there, 1 to {seeds} elsewhere.
- *Collapsed*: the run ends less than {dead} nats below the unigram entropy. The loss is the mean of
  the other runs, with its 95 % interval.
- *Difference*: the loss minus that of pre-LN `complete` of the same sizes, paired by seed.
- *R*: the weight of the common part of all tokens, relative to the stream: its largest value at the
  best rate, taken every {every} steps.

Made by `python benchmarks/practice.py`, which continues an interrupted study.
"""
COLUMNS = (
    "| arm | best learning rate (10⁻³) | validation loss (nats a byte) | difference (nats a byte) "
    "| validation loss by learning rate (10⁻³) | R |\n|---|---|---|---|---|---|"
)
MARK = "<!-- the command writes everything below -->"


def page(record: Record, seeds: int) -> str:
    """The tables of what is kept, and what is not run."""
    missing, parts = [], []
    for title, plan in STUDY.items():
        done = [arm for arm, _, _ in plan if record.finished(arm, seeds)]
        missing += [f"- {title}: {name(a)}" for a, _, _ in plan if a not in done]
        if done:
            parts.append(f"## {title}\n\n{COLUMNS}\n" + "\n".join(row(record, a) for a in done))
        if title.startswith("One matrix") and done:
            parts.append("\n".join(exponents(record, seeds)))
    if missing:
        parts.append("## Not run\n\nThe command runs them.\n\n" + "\n".join(missing))
    return "\n\n".join(parts) + "\n"


def kept(name: str) -> Path:
    """The file of the user's cache that runs are kept in."""
    folder = default_folder() or Path()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def write(file: Path, title: str, tables: str) -> None:
    """Write a page below its mark; the text above the mark is written by hand, and stays."""
    old = file.read_text("utf-8") if file.exists() else ""
    said = old.partition(MARK)[0].strip() if MARK in old else title
    file.write_text(f"{said}\n\n{MARK}\n\n{tables}", encoding="utf-8")


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=whole(0), default=10**6)
    parser.add_argument("--seeds", type=whole(2), default=4)
    parser.add_argument("-o", "--output", type=output, default=PAGE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    until = time.monotonic() + 60 * options.minutes
    record = Record(kept("practice.jsonl"), until)
    try:
        for plan in STUDY.values():
            for arm, rate, few in plan:
                record.settle(arm, rate, min(few, options.seeds), options.seeds)
    except TimeoutError:
        print("no time is left; the page has the finished runs")
    corpus = text(POST.tokens)
    head = INTRO.format(
        name=corpus.name, digest=record.made["text"], unigram=corpus.baseline, steps=POST.steps,
        batch=POST.batch, tokens=POST.tokens, torch=torch.__version__, seeds=options.seeds,
        dead=DEAD, every=EVERY,
    )  # fmt: skip
    write(options.output, TITLE, f"{head}\n{page(record, options.seeds)}")


if __name__ == "__main__":
    main()
