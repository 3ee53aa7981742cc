"""What learning rate a depth bears: relative change of the scaled matrices, and the loss.

    python benchmarks/learning_rate.py [--closures symmetric,unit-init] [--depths 25,100]
        [--rates 3e-4,1e-3,3e-3] [--steps 100]

The rules for Adam under several closures balance the same first-order update and differ in the
initial size of the scaled matrices, so in the share of themselves that one step moves them.
A byte language model of width 64, Adam without warm-up, 8 windows of 32 bytes a step, one thread.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass

import torch
from arguments import names, rates, whole, wholes
from torch import Tensor

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.definitions.rule import closures
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.text import Text
from deepnet_theory.laboratory.training import cross_entropy
from deepnet_theory.runtime import build, described

BATCH, TOKENS, WIDTH, HEADS = 8, 32, 64, 4
HELD_OUT = 4  # batches of 32 windows


@dataclass(frozen=True)
class Outcome:
    """‖θ − θ₀‖/‖θ₀‖ of the scaled matrices after one step and at the end, and the losses."""

    first: float
    change: float
    loss: float
    held_out: float


def generator(index: int) -> torch.Generator:
    return torch.Generator().manual_seed(index % 2**63)


def relative_change(now: list[Tensor], start: list[Tensor]) -> float:
    pairs = zip(now, start, strict=True)
    return statistics.fmean(float((p.detach() - p0).norm() / p0.norm()) for p, p0 in pairs)


def run(closure: str, depth: int, rate: float, steps: int, corpus: Text) -> Outcome:
    derivation = dt.derive(optimizer="adam", stack="decoder", closure=closure)
    constants = dt.export(derivation, depth=depth, width=WIDTH, heads=HEADS)
    model = build(constants, generator=generator(1), embedding_generator=generator(0))
    scaled = [p for p, d in described(model) if d.role is Role.SCALED]
    start = [p.detach().clone() for p in scaled]
    optimizer = torch.optim.Adam(parameter_groups(model, rate), fused=True)
    losses, first = [], 0.0
    for step in range(steps):
        loss = cross_entropy(model, corpus.batch(BATCH, generator(step)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0:
            first = relative_change(scaled, start)
    with torch.no_grad():
        held_out = statistics.fmean(
            float(cross_entropy(model, corpus.batch(32, generator(-1 - i), held_out=True)))
            for i in range(HELD_OUT)
        )
    change = relative_change(scaled, start)
    return Outcome(first, change, statistics.fmean(losses[-10:]), held_out)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--closures", type=names(closures()), default="symmetric,unit-init")
    parser.add_argument("--depths", type=wholes, default="25,100")
    parser.add_argument("--rates", type=rates, default="3e-4,1e-3,3e-3")
    parser.add_argument("--steps", type=whole(), default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    corpus = Text(None, TOKENS)
    print(f"unigram entropy {corpus.baseline:.3f}\n")
    print("| closure | layers | lr | change in 1 step | in all | last 10 losses | held out |")
    print("|---|---|---|---|---|---|---|")
    for closure in options.closures:
        for depth in options.depths:
            for rate in options.rates:
                o = run(closure, depth, rate, options.steps, corpus)
                print(
                    f"| {closure} | {depth} | {rate:g} | {o.first:.3f} | {o.change:.3f} "
                    f"| {o.loss:.2f} | {o.held_out:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
