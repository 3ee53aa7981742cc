"""What the layer cake's §5 says beside its rule: slips, exact masks, other variances, tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deepnet_theory.definitions.selection import AMPLIFICATIONS, Selection
from deepnet_theory.proof.moments import kinds_of, moment_route
from deepnet_theory.proof.step import Step
from paper_checks.shared.steps.moments.concentration import concentration_steps
from paper_checks.shared.steps.moments.heads import head_steps
from paper_checks.shared.steps.moments.mask import mask_steps
from paper_checks.shared.steps.moments.ranges import range_steps
from paper_checks.shared.steps.moments.setting import BRANCHES
from paper_checks.shared.steps.moments.sharper import (
    sharper_bound_step,
    sharper_coefficient_step,
    sharper_rule_steps,
)
from paper_checks.shared.steps.moments.source import source_steps
from paper_checks.shared.steps.moments.tokens import token_steps
from paper_checks.shared.steps.moments.variances import variance_steps


def moment_asides(selection: Selection) -> Iterator[Step]:
    """They use steps of the moment route, so they follow it.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where the route has no law.
    """
    kinds = tuple(BRANCHES[kind.name] for kind in kinds_of(selection) if kind.name in BRANCHES)
    for branch in kinds:
        yield from source_steps(branch)
        if branch.rectified:
            yield from range_steps(branch)
            yield from mask_steps(branch)
        else:
            yield from head_steps(branch)
        yield from variance_steps(branch)
        yield from concentration_steps(branch)
    yield from token_steps()
    if selection.the_placement.normalises_sum:
        yield from (sharper_bound_step(branch) for branch in kinds)
        yield sharper_coefficient_step(kinds)
        if len(selection.the_stack.parts) == 1:
            yield from sharper_rule_steps()
    if len(selection.the_stack.parts) == 2:
        yield from _other_amplifications(selection)


def _other_amplifications(selection: Selection) -> Iterator[Step]:
    """The steps of A counted in the ways that the selection does not ask for."""
    told = {step.name for step in moment_route(selection).steps}
    for way in AMPLIFICATIONS:
        for step in moment_route(replace(selection, amplification=way)).steps:
            if step.name not in told:
                told.add(step.name)
                yield step
