"""How large an update is beside its matrix, in two norms, as the width grows.

    python benchmarks/width.py [adam] [lamb] [muon] [--widths 32,64,128,256]

‖ΔW‖/‖W‖ of the first step at η = 1, in the spectral norm and in Frobenius', and ‖g‖₂/‖g‖_F: the
mean over value, output, fc1 and fc2 of four layers and four seeds, drawn by the closure
``complete``, on text. Why it matters: ``benchmarks/results/transfer.md``.
"""

from __future__ import annotations

import argparse

import torch
from arguments import wholes
from torch import Tensor, nn

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.stepping import arriving, backward, only
from deepnet_theory.laboratory.trial import Case, Trial
from deepnet_theory.models.step import update as of
from deepnet_theory.proof.derivation import derive

LAYERS, SEEDS = 4, 4


def sizes(optimizer: str, width: int) -> tuple[float, float, float]:
    """‖ΔW‖₂/‖W‖₂, ‖ΔW‖_F/‖W‖_F and ‖g‖₂/‖g‖_F, of the scaled matrices."""
    derivation = derive(Selection(optimizer=optimizer, closure="complete"))
    settings = Settings(width=width, seeds=SEEDS)
    trial = Trial(Case(derivation.selection, derivation.rule, {"N": LAYERS}, settings))
    scaled = [p for p, drawn in trial.parameters() if drawn.role is Role.SCALED]
    seen: list[Tensor] = []
    update = derivation.selection.the_optimizer.expression

    def observe(parameter: nn.Parameter, gradient: Tensor) -> None:
        change = of(update, 1.0, gradient, parameter)
        spectral, whole = (
            torch.linalg.matrix_norm(torch.stack((change, parameter, gradient)), ord=order)
            for order in (2, "fro")
        )
        rows = (spectral[0] / spectral[1], whole[0] / whole[1], spectral[2] / whole[2])
        seen.append(torch.stack(rows).mean(1))

    with only(trial.model, scaled), arriving(scaled, observe):
        backward(trial.loss(trial.output()))
    spectral, whole, rank = torch.stack(seen).mean(0).tolist()
    return spectral, whole, rank


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("optimizers", nargs="*", default=["adam", "lamb", "muon"])
    parser.add_argument("--widths", type=wholes, default=(32, 64, 128, 256))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| | width | ‖ΔW‖₂/‖W‖₂ | ‖ΔW‖_F/‖W‖_F | ‖g‖₂/‖g‖_F |\n|---|---|---|---|---|")
    for optimizer in asked.optimizers:
        for width in asked.widths:
            row = " | ".join(f"{size:.3g}" for size in sizes(optimizer, width))
            print(f"| {optimizer} | {width} | {row} |")


if __name__ == "__main__":
    main()
