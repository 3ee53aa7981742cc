"""The layer cake's §5 by mean squares: its chain, and slips, exact masks, tokens."""

from __future__ import annotations

from collections.abc import Iterator

from deepnet_theory.proof.step import Step
from paper_checks.shared.steps.moments.heads import head_steps
from paper_checks.shared.steps.moments.mask import mask_steps
from paper_checks.shared.steps.moments.ranges import range_steps
from paper_checks.shared.steps.moments.route import given as given
from paper_checks.shared.steps.moments.route import route_steps as route_steps
from paper_checks.shared.steps.moments.setting import BRANCHES
from paper_checks.shared.steps.moments.sharper import (
    sharper_bound_step,
    sharper_coefficient_step,
    sharper_rule_steps,
)
from paper_checks.shared.steps.moments.source import source_steps
from paper_checks.shared.steps.moments.tokens import token_steps


def moment_asides() -> Iterator[Step]:
    """What the source writes around its chain; it uses steps of the chain, so it follows it."""
    for branch in BRANCHES.values():
        yield from source_steps(branch)
        if branch.rectified:
            yield from range_steps(branch)
            yield from mask_steps(branch)
        else:
            yield from head_steps(branch)
    yield from token_steps()
    yield from map(sharper_bound_step, BRANCHES.values())
    yield sharper_coefficient_step(tuple(BRANCHES.values()))
    yield from sharper_rule_steps()
