"""Somebody's model, read and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deepnet_theory.spec.closures.complete import COMPLETE
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import DeepNetTheoryError, Refusal

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from deepnet_theory.models.factory import Made
    from deepnet_theory.spec.results.audit import Audit


def audit(
    model: nn.Module | Made,
    inputs: object = None,
    *,
    optimizer: str | Optimizer | None = None,
    constants: Constants | str | Path | None = None,
    roles: Mapping[str, str] | None = None,
    name: str = "",
) -> Audit:
    """Whether somebody's model follows a rule, and where not, by one recorded forward pass.

    It is held against ``constants`` where they are given; else against every closure's rule of the
    ``optimizer`` (its name, or a torch optimizer, whose groups are then looked at too: learning
    rates, and by constants ε and weight decay of every kind of parameter), or of each class of
    optimizers, and against the published schemes. ``inputs`` are a tensor, a
    tuple or a mapping; ``roles`` say what was not understood, by patterns of parameter names:
    ``{"value": "*.v_proj.weight"}``. Raises :class:`InputError` for a model that cannot be read.
    """
    from deepnet_theory.models.audit import judge, name_and_groups, of_constants
    from deepnet_theory.models.factory import Made, made
    from deepnet_theory.models.reading import read
    from deepnet_theory.report.scheme import standing
    from deepnet_theory.runtime.fitting import multiplied_values
    from deepnet_theory.sizes.judgement import Row
    from deepnet_theory.sizes.schemes import trials
    from deepnet_theory.sizes.wanted import wanted, with_degrees
    from deepnet_theory.spec.optimizer import optimizer as named
    from deepnet_theory.spec.scheme import schemes
    from deepnet_theory.spec.subject import without_law

    under, groups = None, dict[str, dict[str, float]]()
    if isinstance(optimizer, str):
        under = named(optimizer).name
    elif optimizer is not None:
        under, groups = name_and_groups(optimizer, model)
    own = getattr(model, "_orig_mod", model)  # a compiled model's own code
    whole = own if isinstance(own, Made) else made(own, inputs)
    reading = read(whole, roles=roles)
    why_not = without_law(reading) or multiplied_values(whole.module, whole, reading.sublayers)
    try:
        if constants is not None:
            rules = [] if why_not else [with_degrees(of_constants(reading, constants))]
        else:
            rules = wanted(reading, under)
    except Refusal as refusal:
        rules, why_not = [], str(refusal)
    found = judge(reading, rules, name or type(model).__name__, under, groups, why_not)
    if found.follows in schemes() and under is not None:  # to follow one is not to be balanced
        row = Row((under,), trials(schemes()[found.follows], named(under)))
        judged = standing(found.follows, row)
        found = replace(found, remarks=(*found.remarks, f"under {under}: {judged[:-1]}"))
    return _with_rules(found)


def _with_rules(found: Audit) -> Audit:
    """With the rules of the optimizer for these stacks, first derived and to train with."""
    from deepnet_theory.sizes.answer import Answer, for_training
    from deepnet_theory.sizes.wanted import depth_of, selection_of
    from deepnet_theory.spec.placement import placement

    words = found.reading.select
    if "placement" not in words:
        return found
    condition = placement(words["placement"]).training_condition
    if found.optimizer is None:  # whichever it is
        return replace(found, closure=COMPLETE.name, condition=condition)
    try:
        selection = selection_of(found.reading, found.optimizer)
        rows, closure = Answer(selection).rows, for_training(selection).closure
    except DeepNetTheoryError:  # there is nothing to derive for it
        return found
    depth = {name: depth_of(found.reading)[name] for name in selection.the_stack.depths}
    told = {row.named: row.told(**depth) for row in rows}
    return replace(found, closure=closure, rows=told, condition=condition if closure else "")
