"""Layers that are no plain sequence: branches in parallel."""

from dataclasses import replace

import pytest
import torch

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.runtime import build

F64 = torch.float64


# ------------------------------------------------------------------ branches in parallel


def parallel(made):
    """The same constants, the branches of a layer on one sum."""
    parts = tuple(
        replace(p, sublayers=tuple(replace(s, parallel=i > 0) for i, s in enumerate(p.sublayers)))
        for p in made.parts
    )
    return replace(made, parts=parts)


def drawn(made, **more):
    return build(made, dtype=F64, generator=torch.Generator().manual_seed(0), **more)


APART = {"res-post-gain", "sandwich-gain"}  # learnt, not next to the branch


@pytest.mark.parametrize("placement", sorted(APART))
def test_parallel_branches_share_no_other_multiplier(constants, placement):
    with pytest.raises(InputError, match="parallel branches are built for"):
        drawn(parallel(constants(placement=placement)))


WRONG = {
    "nothing to join": (lambda s: (replace(s[1], parallel=True), s[0]), "has no sum to join"),
    "two alphas": (
        lambda s: (s[0], replace(s[1], parallel=True, alpha=2.0)),
        "the branches of one residual sum have one alpha, not 1.7 and 2.0",
    ),
    "a number": (lambda s: (s[0], replace(s[1], parallel=1)), "parallel must be a boolean"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sum_that_cannot_be_is_refused_in_a_sentence(constants, name):
    change, why = WRONG[name]
    (part,) = (made := constants()).parts
    with pytest.raises(InputError, match=why):
        replace(made, parts=(replace(part, sublayers=change(part.sublayers)),))
