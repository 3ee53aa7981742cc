"""The constants of one model to train."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Unpack

from deepnet_theory.sizes.answer import Answer, for_training
from deepnet_theory.sizes.base import Base, BaseLike, relative
from deepnet_theory.sizes.entries import FULL
from deepnet_theory.sizes.equivalence import in_weights, powers
from deepnet_theory.sizes.exponents import Exponents
from deepnet_theory.sizes.width import Scale
from deepnet_theory.spec import __version__
from deepnet_theory.spec.constants import FORMS, Architecture, Constants, Sizes
from deepnet_theory.spec.depth import DepthLike, parse_depth
from deepnet_theory.spec.errors import InputError, shown, unknown
from deepnet_theory.spec.rule import Row, Rule
from deepnet_theory.spec.selection import ALIGNMENTS, Selection
from deepnet_theory.spec.settings import record
from deepnet_theory.workflow.given import answered


def export(
    answer: Answer | Selection | str | None = None,
    depth: DepthLike | None = None,
    *,
    rule: Rule | None = None,
    form: str = "forward",
    base: BaseLike | None = None,
    base_heads: int | None = None,
    alignment: str = FULL,
    **architecture: Unpack[Sizes],
) -> Constants:
    """The constants of one model to train: a rule's values at a depth, and where they came from.

    A derivation or selection that names no closure is exported with ``complete``, under which
    one learning rate serves every depth, where there is such a rule:
    ``export("adam", depth=200)`` is not the published rule that ``derive("adam")`` shows first,
    and ``export(derive("adam", closure="symmetric"), depth=200)`` is. ``rule`` replaces the
    derived one; its learning-rate multipliers are then 1, because none were derived for it.
    ``architecture`` are the fields of :class:`~deepnet_theory.spec.constants.Architecture`
    (``width``, ``heads``, ``ffn_ratio``, ``vocab`` …).

    With ``form`` "weights" α goes into the last matrix of each branch, its initial size and
    multipliers, and the model's forward pass is one without α; "forward" leaves it in the residual
    sum.

    With ``base``, the width of a smaller model or its (width, depth), every number is what that
    model's own is multiplied by: initial size, the head's multiplier, learning rate, ε and weight
    decay of each role. A base width alone leaves the numbers in depth as they are; a base with a
    depth is a plain model, α and all multipliers 1. ``base_heads`` is its number of heads where
    they are not as wide as the model's: scores then fall with the head size, not its root.
    ``alignment`` is that of updates and moved features in the width.

    Warns (:class:`~deepnet_theory.spec.errors.UnstableWarning`) of a relative update ρ that
    grows with the depth. Raises :class:`InputError` for a depth that is none, or sizes that do not
    fit each other, and :class:`Refusal` where no matrix can carry α, or where the stream
    explodes.

    Source: the rule's own; its formulas go with the numbers, under ``origin``.
    """
    answer = answered(answer)
    trained = answer if rule is not None else to_train_with(answer)
    if alignment not in ALIGNMENTS:
        raise unknown("alignment", alignment, ALIGNMENTS)

    def at(depth: DepthLike | None) -> Constants:
        return constants_of(trained, depth, rule, form, architecture, answer.rows)

    constants = at(depth)
    if base is None and base_heads is not None:
        raise InputError(f"base_heads {shown(base_heads)} was given without a base width")
    if base is not None:
        a, selection = constants.architecture, trained.selection
        of = Base.parse(base, base_heads, selection.the_stack, a)
        both = () if of.depth is None else (parse_depth(depth, selection.the_stack), of.depth)
        scale = Scale(a.width, of.width, *(tuple(layers.items()) for layers in both))
        shallow = None if of.depth is None else at(of.depth)
        constants = relative(constants, selection, scale, of.heads, alignment, shallow)
        origin = {**constants.origin, "base": {**asdict(of), "alignment": alignment}}
        constants = replace(constants, origin=origin, condition=_condition(constants))
    constants.warn()
    return constants


def _condition(c: Constants) -> str:
    """What training needs beside the constants, where a base makes the head small too."""
    head = c.head_multiplier * c.outer.get("head", c.outer["embedding"]).gain
    if not c.condition or head >= 1:
        return c.condition
    return (
        f"In width theory the head is small, here {head:.3g} of Xavier's size, so that the logits "
        "move as far at every width; a small head kills post-LN unless its bias starts at the "
        f"log-unigram: give it such a bias (--head-bias, start_head_). {c.condition}"
    )


def to_train_with(answer: Answer) -> Answer:
    """The answer with the rule to train with, where this one names no closure."""
    wanted = for_training(answer.selection)
    return answer if wanted == answer.selection else Answer(wanted)


def constants_of(
    answer: Answer,
    depth: DepthLike | None,
    rule: Rule | None,
    form: str,
    sizes: Sizes,
    rows: tuple[Row, ...] = (),
) -> Constants:
    """The constants of the rule of an answer, or of one's own in its place.

    ``rows`` are the named rules that it is one of; its own if none are given.
    """
    selection = answer.selection
    at = parse_depth(depth, selection.the_stack)
    own = answer.rule if rule is None else rule
    built, used = selection, own
    parameters = answer.parameters if rule is None else ()
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    if form == "weights":
        moved = (powers(selection.the_optimizer, at_zero) for at_zero in (False, True))
        built, used, parameters = in_weights(selection, own, parameters, *moved)
    rows = rows or answer.rows
    named = "own"
    if rule is None:
        named = next(row.named for row in rows if row.rule.entries == own.entries)
    return Constants.of(
        built,
        used,
        at,
        record(Architecture, "an architecture", sizes),
        parameters=parameters,
        form=form,
        warning=answer.warning if rule is None else Exponents(selection, rule).unstable(),
        condition=selection.the_placement.training_condition
        if rule is None and answer.trains
        else "",
        origin={
            "package": f"deepnet-theory {__version__}",
            "select": selection.to_dict(),
            "rule": used.name,
            "row": named,
            "rows": {} if rule is not None else {row.named: row.told(**at) for row in rows},
            "meaning": used.meaning,
            "formulas": [entry.to_dict() for entry in own.entries],
            "eta": used.eta,
            **({"in_depth": answer.in_depth} if rule is None else {}),
            "depth": at,
            "verdict": _verdict(answer) if rule is None else "ASSUMED",
        },
    )


def _verdict(answer: Answer) -> str:
    """The verdict of a derivation; an answer alone has not asked for a proof."""
    verdict = getattr(answer, "verdict", None)
    return "computed; derive proves it" if verdict is None else str(verdict)
