r"""Whether a branch with one matrix needs 1/√N or 1/N, embedding and head at a fixed rate.

    python benchmarks/one_matrix.py [--seeds 16] [--minutes 60] [-o FILE]

``practice.py`` steps embedding and head at the rate of the hidden matrices, so that the best rate
of one says nothing certain of the other. Here they step at one fixed rate at every depth, and the
rate of the matrices alone is sought; at 64 layers both are sought together too, with the same
seeds. Every core trains; every run is kept in the user's cache, and the same command goes on
there. With ``--minutes`` no run begins later than that; the page has the finished runs. The text
above its mark is written by hand, and stays.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch
from arguments import output, whole
from practice import COLUMNS, Record, interval, kept, row, vertex, write
from recipe import ONE, Arm, Run, text, train

OUTER = 0.064  # near the best of both at 4 layers
RATES = (0.064, 0.128, 0.256, 0.512, 1.024)  # of the hidden matrices
TOGETHER = (0.064, 0.128, 0.256, 0.512)  # of all
DRAWN = 1000  # times that the seeds are drawn again, for an interval
PAGE = Path(__file__).parent / "results" / "one_matrix.md"
ARMS = [Arm(f"{ONE}, 1/{n}", depth=d, outer=OUTER) for d in (4, 16, 64) for n in ("√N", "N")]
BOTH = [Arm(f"{ONE}, 1/{n}", depth=64) for n in ("√N", "N")]
TITLE = "# A branch with one matrix: 1/√N or 1/N"
INTRO = """\
## Set-up

Byte language models on {name} (digest {digest}, unigram entropy {unigram:.3f} nats), trained as on
[the page of practice](practice.md#set-up): branches W·relu, tokens mixed by a shift, RMS norms,
AdamW, {steps} steps of {batch} windows of {tokens} bytes, width {width}, {seeds} seeds at every
learning rate, torch {torch}. In the first table the learning rate is that of the hidden matrices,
and embedding and head have {outer:g} at every depth. In the second table all have one. Made by
`python benchmarks/one_matrix.py`.
"""


def runs(seeds: int) -> Iterator[tuple[Arm, float, int]]:
    """Every run, the deepest first, so that no core waits for one at the end."""
    for depth in (64, 16, 4):
        for seed in range(seeds):
            for rates, arms in ((RATES, ARMS), (TOGETHER, BOTH)):
                yield from ((a, r, seed) for a in arms if a.depth == depth for r in rates)


def one(arm: Arm, rate: float, seed: int, until: float) -> Run | None:
    """A run in a process of its own, or none where the time is over."""
    torch.set_num_threads(1)
    return train(arm, rate, seed) if time.time() < until else None


def fill(file: Path, seeds: int, until: float) -> Record:
    """Run what is missing on every core, and keep it."""
    record = Record(file, math.inf)
    missing = [of for of in runs(seeds) if not record.has(*of)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        began = {pool.submit(one, *of, until): of for of in missing}
        for future in as_completed(began):
            if (run := future.result()) is not None:
                record.add(*began[future], run)
    return record


def best_rate(record: Record, arm: Arm, seeds: Sequence[int]) -> float:
    """Of the mean over these seeds: of the parabola through the best rate and its neighbours."""
    runs = record.runs[arm]
    rates = sorted(runs)
    means = [np.mean([runs[rate][seed].loss for seed in seeds]) for rate in rates]
    middle = min(max(1, int(np.argmin(means))), len(rates) - 2)
    near = slice(middle - 1, middle + 2)
    return vertex(rates[near], means[near])


def compared(record: Record, arms: Sequence[Arm], seeds: int) -> Iterator[str]:
    """The best rate against depth, with seeds drawn again; and what the two scalings differ by."""
    drawn = np.random.default_rng(0).integers(0, seeds, (DRAWN, seeds))
    depths = sorted({arm.depth for arm in arms})
    for n in ("√N", "N") if len(depths) > 1 else ():
        alike = [arm for arm in arms if arm.rule.endswith(f"1/{n}")]
        best = [[best_rate(record, arm, of) for arm in alike] for of in [range(seeds), *drawn]]
        slope, *slopes = np.polyfit(np.log(depths), np.log(best).T, 1)[0]
        low, high = np.percentile(slopes, [2.5, 97.5])
        means = ", ".join(f"{1e3 * rate:.3g}" for rate in best[0])
        yield (
            f"- 1/{n}: the best rates at {', '.join(map(str, depths))} layers are {means}: as N to "
            f"the {slope:+.3f} ({low:+.3f} to {high:+.3f}, seeds drawn again {DRAWN} times)."
        )
    for depth in depths:
        root, plain = (record.at_best(arm) for arm in arms if arm.depth == depth)
        gap = interval([root[s].loss - plain[s].loss for s in range(seeds)], signed=True)
        yield f"- {depth} layers: the loss of 1/√N minus that of 1/N is {gap}."


def page(record: Record, seeds: int) -> str:
    """The two tables, and what they come to."""
    parts = []
    for title, arms in (("A rate of their own", ARMS), ("One rate for all", BOTH)):
        done = [arm for arm in arms if record.finished(arm, seeds)]
        parts.append("\n".join([f"## {title}\n\n{COLUMNS}", *(row(record, arm) for arm in done)]))
        if len(done) == len(arms):
            parts.append("\n".join(compared(record, arms, seeds)))
        parts += [f"Not finished: {arm.rule} at {arm.depth}." for arm in arms if arm not in done]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=whole(0), default=10**6)
    parser.add_argument("--seeds", type=whole(2), default=16)
    parser.add_argument("-o", "--output", type=output, default=PAGE)
    options = parser.parse_args()
    until = time.time() + 60 * options.minutes
    record = fill(kept("one_matrix.jsonl"), options.seeds, until)
    of = ARMS[0]
    corpus = text(of.tokens)
    head = INTRO.format(
        name=corpus.name, digest=record.made["text"], unigram=corpus.baseline, steps=of.steps,
        batch=of.batch, tokens=of.tokens, width=of.width, seeds=options.seeds, outer=OUTER,
        torch=torch.__version__,
    )  # fmt: skip
    write(options.output, TITLE, f"{head}\n{page(record, options.seeds)}")


if __name__ == "__main__":
    main()
