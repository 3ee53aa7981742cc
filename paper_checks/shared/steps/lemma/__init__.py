"""What DeepNet and the layer cake write around the lemma route, in checked steps."""

from __future__ import annotations

from collections.abc import Iterator

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.algebra import gains
from deepnet_theory.proof.lemma import gain_counts, law_of
from deepnet_theory.proof.step import Step
from paper_checks.shared.steps.lemma.chain import chain_steps, given
from paper_checks.shared.steps.lemma.jacobians import product_steps
from paper_checks.shared.steps.lemma.matrix_by_matrix import (
    matrix_by_matrix,
    sublayers_together,
)
from paper_checks.shared.steps.lemma.scalar import derivative_steps
from paper_checks.shared.steps.lemma.softmax import softmax_steps
from paper_checks.shared.steps.lemma.stream import far_from_identity

__all__ = ["before_steps", "following_steps", "given"]


def before_steps() -> tuple[Step, ...]:
    """The softmax lemma, attention defined, the chain rule, Taylor's first term."""
    return (*softmax_steps(), *chain_steps())


def following_steps(selection: Selection) -> Iterator[Step]:
    """What uses the route's steps: derivatives in the gains, worst case."""
    counts = gain_counts(selection)
    law = law_of(selection)
    of = gains(counts[0])
    if law.placement.normalises_sum:
        yield from derivative_steps(of)
        yield from product_steps()
    else:
        yield far_from_identity(law.degrees.p)
    yield sublayers_together(law, of)
    yield matrix_by_matrix(law, of)
