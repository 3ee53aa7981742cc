"""The constants of one model to train."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from deepnet_theory.sizes.answer import Answer, for_training
from deepnet_theory.sizes.entries import FULL
from deepnet_theory.sizes.exported import constants_of, constants_of_scheme, on_base
from deepnet_theory.spec.constants import Constants, Sizes
from deepnet_theory.spec.errors import InputError, shown, unknown
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import ALIGNMENTS, Selection
from deepnet_theory.spec.stack import BaseLike, DepthLike
from deepnet_theory.workflow.given import answered, scheme_of_depth


def export(
    answer: Answer | Selection | str | None = None,
    depth: DepthLike | None = None,
    *,
    scheme: str | None = None,
    rule: Rule | None = None,
    form: str = "forward",
    base: BaseLike | None = None,
    base_heads: int | None = None,
    alignment: str = FULL,
    **architecture: Unpack[Sizes],
) -> Constants:
    """The constants of one model to train: a rule's values at a depth, and where they came from.

    A derivation or selection that names no closure is exported with ``complete``, whose one
    learning rate serves every depth, if there is such a rule:
    ``export("adam", depth=200)`` is not the published rule that ``derive("adam")`` shows first,
    and ``export(derive("adam", closure="symmetric"), depth=200)`` is. ``rule`` replaces the
    derived one; its learning-rate multipliers are then 1, because none were derived for it.
    ``scheme`` is a published one in its place, ``export(scheme="deepnorm", depth=24)``, with its
    own residual equation, sizes and multipliers; a selection beside it says which optimizer and
    stack they are for. Where an author sets a standard deviation, the gains are those of the
    ``architecture``'s widths.
    ``architecture`` are the fields of :class:`~deepnet_theory.spec.constants.Architecture`
    (``width``, ``heads``, ``ffn_ratio``, ``vocab`` …).

    With ``form`` "weights" α goes into the last matrix of each branch, its initial size and
    multipliers, and the model's forward pass is one without α; "forward" leaves it in the residual
    sum.

    With ``base``, the width of a smaller model or its (width, depth), every number is what that
    model's own is multiplied by: initial size, the head's multiplier, learning rate, ε and weight
    decay of each role. A base width alone leaves the numbers in depth as they are; a base with a
    depth is a plain model, α and all multipliers 1. ``base_heads`` is its number of heads where
    they are not as wide as the model's: scores then fall as the alignment asks for.
    ``alignment`` is that of updates and moved features in the width.

    Warns (:class:`~deepnet_theory.spec.errors.UnstableWarning`) of a relative update ρ that
    grows with the depth. Raises :class:`InputError` for a depth that is none, or sizes that do not
    fit each other, and :class:`Refusal` where no matrix can carry α, where the stream
    explodes, or for a scheme that constants do not hold.

    Source: the rule's own; its formulas go with the numbers, under ``origin``.
    """
    if scheme is not None:
        others = {"rule": rule, "base": base, "base_heads": base_heads}
        if beside := [name for name, value in others.items() if value is not None]:
            raise InputError(
                f"the scheme {scheme!r} has constants of its own: leave {beside[0]} out"
            )
        given = scheme_of_depth(scheme)
        selection = Selection(given.optimizer, norm=given.norm, stack=given.stack, uses=given.uses)
        if answer is not None:
            selection = answered(answer).selection
        published = constants_of_scheme(given, selection, depth, form, architecture)
        published.warn()
        return published
    answer = answered(answer)
    trained = answer if rule is not None else to_train_with(answer)
    if alignment not in ALIGNMENTS:
        raise unknown("alignment", alignment, ALIGNMENTS)
    if base is None and base_heads is not None:
        raise InputError(f"base_heads {shown(base_heads)} was given without a base width")
    at = partial(constants_of, trained, rule=rule, form=form, sizes=architecture, rows=answer.rows)
    constants = at(depth)
    if base is not None:
        constants = on_base(at, constants, trained.selection, base, base_heads, alignment)
    constants.warn()
    return constants


def to_train_with(answer: Answer) -> Answer:
    """The answer with the rule to train with, where this one names no closure."""
    wanted = for_training(answer.selection)
    return answer if wanted == answer.selection else Answer(wanted)
