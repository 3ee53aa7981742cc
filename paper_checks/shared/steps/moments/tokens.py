"""From one token to the whole output: where the sequence length enters."""

from __future__ import annotations

import random
from collections.abc import Iterator

import sympy as sp

from deepnet_theory.proof.step import Section, Step
from paper_checks.shared.expectation import Model, NamedQuantity, in_models

TOKENS = Section("Sequence length")

n = sp.Symbol("n", positive=True)  # tokens
output = NamedQuantity("norm_dF", r"\|\Delta F\|_F")
token_sum = NamedQuantity("sum_norm_dx_p", r"\sum_p\|\Delta x_p\|")


def _outputs() -> Iterator[Model]:
    """Explicit changes ΔF; one that moves a single token, one that moves all equally."""
    generator = random.Random(40)
    drawn = [
        sp.Matrix(rows, 3, lambda *_: sp.Rational(generator.randint(-9, 9), 2))
        for rows in (1, 2, 3, 5)
    ]
    single = sp.zeros(4, 3)
    single[2, 1] = 7
    for change in (*drawn, single, sp.ones(4, 3)):
        rows = [change.row(r).norm() for r in range(change.rows)]
        yield {n: sp.Integer(change.rows), output: change.norm(), token_sum: sum(rows)}


def token_steps() -> tuple[Step, ...]:
    """‖ΔF‖_F ≤ Σ_p ‖Δx_p‖ ≤ √n ‖ΔF‖_F."""
    explicit = in_models("at explicit changes, with equality once each", _outputs)
    return (
        TOKENS.at_most(
            "output-at-most-sum-of-tokens",
            output,
            token_sum,
            "a root of a sum of squares is at most the sum; equal where one token moves",
            source="layer cake, §5",
            establishes=(output, token_sum),
            checks=(explicit,),
        ),
        TOKENS.at_most(
            "sum-of-tokens-at-most",
            token_sum,
            sp.sqrt(n) * output,
            (
                "Cauchy–Schwarz; equal where all tokens move alike, which is the usual case: there "
                "‖ΔF‖_F = √n‖Δx_p‖, and the source's Σ_p is √n too large"
            ),
            uses=("output-at-most-sum-of-tokens",),
            checks=(explicit,),
        ),
    )
