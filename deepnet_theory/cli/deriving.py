"""A rule: derived, compared over closures, published or your own; and its constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, overload

from deepnet_theory.definitions import rule as rules
from deepnet_theory.definitions import scheme as schemes
from deepnet_theory.definitions.constants import FORMS, Budget, Constants
from deepnet_theory.definitions.outcome import InputError, shown, unknown
from deepnet_theory.definitions.record import Option, record, taken
from deepnet_theory.definitions.rule import Rule
from deepnet_theory.definitions.scheme import Scheme, measurable
from deepnet_theory.definitions.selection import (
    ACROSS,
    ALIGNMENTS,
    GRADIENT_NOISE,
    SHAPES,
    BaseLike,
    DepthLike,
    Selection,
    parse_depth,
)
from deepnet_theory.sizes.answer import Answer

if TYPE_CHECKING:
    from sympy import Expr

    from deepnet_theory.proof.batch import BatchDerivation
    from deepnet_theory.proof.derivation import Derivation
    from deepnet_theory.proof.width import WidthDerivation


DIMENSIONS = ("depth", *ACROSS, "batch", *SHAPES)
_ONE_OF = ", ".join(DIMENSIONS)
Alignment = Annotated[str | None, Option("NAME", "In width, full or none; full", ALIGNMENTS)]


@overload
def derive(
    selection: Selection | str | None = None, *, across: Literal["width", "both"], **given: Any
) -> WidthDerivation: ...
@overload
def derive(selection: Selection | str | None = None, **given: Any) -> Derivation: ...
def derive(
    selection: Selection | str | None = None,
    *,
    across: Annotated[
        str, Option("LIST", f"{_ONE_OF}, or a list: width,batch", DIMENSIONS)
    ] = "depth",
    gradient_noise: Annotated[
        str | None,
        Option(
            "NAME", "In the batch, dominant or none beside the signal; dominant", GRADIENT_NOISE
        ),
    ] = None,
    curve: Annotated[bool, Option("", "In the batch, the best rate between the regimes")] = False,
    depth: Annotated[
        DepthLike | None, Option("N[,M]", "Print numbers for this many layers")
    ] = None,
    alignment: Alignment = None,
    form: Annotated[
        str | None, Option("NAME", "In width, a head's multiplier (forward) or none", FORMS)
    ] = None,
    width: Annotated[int | None, Option("D", "Print numbers for this width")] = None,
    base_width: Annotated[int | None, Option("D0", "Width of the model that was tuned")] = None,
    base_depth: Annotated[
        DepthLike | None, Option("N0[,M0]", "Layers of the model that was tuned")
    ] = None,
    **select: Any,
) -> Derivation | WidthDerivation | BatchDerivation:
    r"""Derive the rule for a selection: ``derive("lamb")``, or ``derive(optimizer="lamb")``.

    .. math:: x_{l+1} = \mathrm{norm}(\alpha x_l + \beta B(x_l)), \qquad
              \alpha, \beta:\ \|\Delta F\| = \Theta(\eta) \text{ at every depth}

    for post-LN; a placement brings its own equation. α and β are exact in the depths N and M. A
    text in place of a selection is the name of an optimizer, or an update, which contains ``eta``;
    ``select`` are the fields of :class:`~deepnet_theory.definitions.selection.Selection`.

    With ``across`` "width" or "both" it is what every role takes in the width d, or in N and M too.
    ``alignment`` "full" says that updates meet inputs like those that made them, "none" that they
    do not. ``form`` "forward" puts the head's factor into the forward pass, "weights" into its
    initial size. With ``width`` and ``base_width`` (across both: the depths too) each size is also
    a number, in units of the base model's own.

    With "batch" in ``across`` it is what every role's rate, decays, ε and memory are multiplied by
    in the batch size B, while ``gradient_noise`` is "dominant" or there is "none"; with other
    dimensions in a list their exponents add. "heads", "ffn" (hidden units), "vocab", "experts" and
    "rank" (of an adapter) are further shapes: what every role takes as one of them grows alone.

    Raises :class:`InputError` for bad input and :class:`Refusal` where no rule exists.

    Source: every step names its own; Su Jianlin's posts (probe), DeepNet, arXiv 2203.00555
    (lemma, its bounds corrected); in width the conditions are those of arXiv 2011.14522, 2203.03466
    and 2310.17813, and the sizes of updates are derived.
    """
    selection = selection_of(selection, select)
    deep = {"depth": depth, "base depth": base_depth}
    dimensions, shapes, with_batch = _dimensions(across)
    wide = {"form": form, "width": width, "alignment": alignment, "base width": base_width}
    if with_batch:
        from deepnet_theory.proof.batch import BatchDerivation
        from deepnet_theory.sizes.batch import batch_rule

        powers = batch_rule(selection, gradient_noise or GRADIENT_NOISE[0], "rank" in shapes)
        if not dimensions and not shapes:
            refuse({**wide, **deep}, "with across batch, where nothing depends on it")
            return BatchDerivation(powers, curved=curve)
        named = {name.replace(" ", "_"): value for name, value in (wide | deep).items()}
        others = ",".join(filter(None, (dimensions, *shapes)))
        other: Any = derive(selection, across=others, **named)
        where = {"deep" if others == "depth" else "wide": other}
        return BatchDerivation(powers, curved=curve, **where)
    refuse({"gradient noise": gradient_noise, "curve": curve or None}, "without across batch")
    across = dimensions
    if across == "depth" and not shapes:
        refuse({**wide, "base depth": base_depth}, "without across width or both")
        # A bad depth is refused before the derivation is made.
        values = {} if depth is None else parse_depth(depth, selection.the_stack)
        derivation = derived(selection)
        return derivation.at(**values) if values else derivation
    from deepnet_theory.proof.width import WidthDerivation
    from deepnet_theory.sizes.width import Scale, jointly, width_table

    settings = alignment or ALIGNMENTS[0], form or FORMS[0]
    if shapes:
        refuse({"width": width, "base width": base_width, **deep}, f"with across {shapes[0]}")
        adapted = "rank" in shapes
        if across == "depth" or (across == "both" and adapted):
            why = "rank has no law in the depth" if adapted else "depth needs width beside it"
            raise InputError(f"across depth,{','.join(shapes)}: {why}")
        tables = [width_table(selection, across, *settings, adapted)] if across else []
        tables += [width_table(selection, shape, *settings) for shape in shapes]
        return WidthDerivation(jointly(tables) if tables[1:] else tables[0], factors=tuple(tables))
    table = width_table(selection, across, *settings)
    if across != "both":
        refuse(deep, "with across width, where nothing depends on it, and needs across both")
        deep = {}
    given = {"width": width, "base width": base_width, **deep}
    missing = [name for name, value in given.items() if value is None]
    if width is None or base_width is None or missing:
        if len(missing) < len(given):
            raise InputError(f"numbers need {', '.join(given)}; missing: {', '.join(missing)}")
        return WidthDerivation(table)
    layers = (tuple(parse_depth(n, selection.the_stack).items()) for n in deep.values())
    return WidthDerivation(table, Scale(width, base_width, *layers))


def _dimensions(across: str) -> tuple[str, list[str], bool]:
    """Depth and width of a list in one word, other shapes, and whether the batch is there."""
    names = across.replace("both", "depth,width").split(",")
    for name in names:
        if name not in DIMENSIONS:
            raise unknown("across", name, DIMENSIONS)
    if len(set(names)) < len(names):
        raise InputError(f"across {shown(across)} names a dimension twice")
    sizes = [name for name in ("depth", "width") if name in names]
    shapes = [name for name in names if name in SHAPES]
    return "both" if len(sizes) > 1 else "".join(sizes), shapes, "batch" in names


def own_rule(
    selection: Answer | Selection | str,
    alpha: str | float | Expr,
    beta: str | float | Expr,
    decoder_alpha: str | float | Expr | None = None,
    decoder_beta: str | float | Expr | None = None,
) -> Rule:
    """Your own rule for the stack of a selection or of a derivation: α and β in N and M.

    They are texts, parsed by the grammar of depths and never evaluated as code, numbers or SymPy's
    expressions. Norms keep their ε. Raises :class:`InputError` for any other value, or for a
    decoder that is not there.
    """
    parts = selection_of(selection, {}).the_stack.parts
    names = tuple(part.name for part in parts)
    return rules.own_rule(names, alpha, beta, decoder_alpha, decoder_beta)


def export(
    answer: Answer | Selection | str | None = None,
    depth: Annotated[DepthLike | None, Option("N[,M]", "Layers of the model")] = None,
    *,
    form: Annotated[
        str, Option("NAME", "alpha in the residual sum (forward), or none (weights)", FORMS)
    ] = FORMS[0],
    base: BaseLike | None = None,
    base_heads: Annotated[
        int | None, Option("H0", "Heads of that model, if they are not as wide as this one's")
    ] = None,
    alignment: str = ALIGNMENTS[0],
    **given: Any,
) -> Constants:
    """The constants of one model to train: a rule's values at a depth, and where they came from.

    ``given`` has the fields of a selection, those of
    :class:`~deepnet_theory.definitions.constants.Architecture` (``width``, ``heads`` …), and a
    ``rule`` of your own, or ``alpha`` and ``beta``, whose learning-rate multipliers are 1, or a
    published ``scheme``, for whose optimizer and stack a selection may ask.

    With ``form`` "weights" α goes into the last matrix of each branch, its initial size and
    multipliers. With ``base``, the width of a smaller model or its (width, depth), what a role
    steps with is a multiple of that model's own, which is exported in the same way at its sizes;
    ``base_heads`` is its number of heads where they are not as wide as the model's. ``alignment``
    is that of updates and moved features in the width.

    With the fields of :class:`~deepnet_theory.definitions.constants.Budget` the multipliers are for
    a ``batch`` and a ``horizon``, a number of steps, other than those of the run that was tuned,
    ``base_batch`` and ``base_horizon``: the number of samples stays where no horizon is given.
    ``b_noise``, by ``measure --noise``, warns of a batch above it.

    Warns (:class:`~deepnet_theory.definitions.outcome.UnstableWarning`) of a relative update ρ that
    grows with the depth. Raises :class:`InputError` for a bad depth or sizes that do not fit each
    other, and :class:`Refusal` where no matrix can carry α, where the stream explodes, or for a
    scheme that constants do not hold.

    Source: the rule's own; its formulas go with the numbers, under ``origin``.
    """
    from deepnet_theory.sizes.exported import (
        constants_of,
        constants_of_scheme,
        in_budget,
        on_base,
        stack_of_scheme,
    )

    subject = subject_of(answer, given, "stack", "layer", "norm")
    run = taken(given, [f.name for f in fields(Budget)])
    budgeted = partial(in_budget, budget=Budget(**run)) if run else (lambda c: c)
    if subject.scheme is not None:
        has_own = f"with the scheme {subject.scheme.name!r}, which has constants of its own"
        refuse({"base": base, "base_heads": base_heads}, has_own)
        selection = stack_of_scheme(subject.scheme, subject.selection)
        constants = budgeted(constants_of_scheme(subject.scheme, selection, depth, form, given))
        constants.warn()
        return constants
    answer = subject.answer
    if alignment not in ALIGNMENTS:
        raise unknown("alignment", alignment, ALIGNMENTS)
    if base is None:
        refuse({"base_heads": base_heads}, "without a base width")
    # the constants at another depth too: those of the base model
    there = partial(constants_of, answer, rule=subject.rule, form=form, sizes=given)
    constants = there(depth)
    if base is not None:
        constants = on_base(there, constants, answer.selection, base, base_heads, alignment)
    constants = budgeted(constants)
    constants.warn()
    return constants


# ---- what the verbs are given, as values ----


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raise :class:`InputError` for the first that was given, of what does not go together."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} was given {why}")


@dataclass(frozen=True)
class Instead:
    """In place of the derived rule: your own, or a published scheme."""

    alpha: Annotated[Any, Option("EXPR", 'Your own alpha, e.g. "N**(1/3)"')] = None
    beta: Annotated[Any, Option("EXPR", "Your own beta")] = None
    decoder_alpha: Annotated[Any, Option("EXPR", "The decoder's alpha, if another")] = None
    decoder_beta: Annotated[Any, Option("EXPR", "The decoder's beta, if another")] = None
    scheme: Annotated[
        str | None, Option("NAME", "A published scheme; see `list schemes`", folder="schemes")
    ] = None


class Subject(NamedTuple):
    """What a verb is about: a rule, the derived one or your own, or a published scheme."""

    given: Answer | Selection | None  # None: as the scheme has it
    rule: Rule | None = None
    scheme: Scheme | None = None

    @property
    def selection(self) -> Selection | None:
        return None if self.given is None else selection_of(self.given, {})

    @property
    def answer(self) -> Answer:
        given = self.given
        return given if isinstance(given, Answer) else Answer(selection_of(given, {}))

    def measured(self) -> tuple[Selection, Rule]:
        """The stack that is built, and what it is scaled by."""
        if self.scheme is None:
            answer = self.answer
            return answer.selection, self.rule or answer.rule
        under = self.selection
        names = (None, None) if under is None else (under.optimizer, under.update)
        return measurable(self.scheme, *names)


OF_SELECTION, OF_INSTEAD = ([f.name for f in fields(kind)] for kind in (Selection, Instead))


def subject_of(
    subject: Answer | Selection | str | None, given: dict[str, Any], *stack: str
) -> Subject:
    """The subject of a verb; ``given`` loses the keywords that say it.

    They are the fields of a selection and of :class:`Instead`, or a ``rule``. A scheme takes an
    optimizer, an update and these parts of the ``stack`` from a selection. Raises
    :class:`InputError` for what does not go together.
    """
    select, own = taken(given, OF_SELECTION), taken(given, OF_INSTEAD)
    rule, scheme = given.pop("rule", None), own.pop("scheme", None)
    if scheme is None:
        if select or not isinstance(subject, Answer):
            subject = selection_of(subject, select)
        if own and not {"alpha", "beta"} <= own.keys():
            raise InputError(f"{next(iter(own))} was given: alpha and beta must be given together")
        return Subject(subject, own_rule(subject, **own) if own else rule)
    published, usual = schemes.scheme(scheme), {one.name: one.default for one in fields(Selection)}
    kept = ("optimizer", "update", *stack)
    others = {n: value for n, value in select.items() if n not in kept and value != usual[n]}
    judged = "which has its own; a scheme is judged under an optimizer or an update"
    refuse({**own, **others, "rule": rule}, f"with the scheme {scheme!r}, {judged}")
    if select:
        select = {"stack": published.stack, "norm": published.norm, **select}
        if not {"optimizer", "update"} & select.keys():
            select["optimizer"] = published.optimizer
        subject = selection_of(subject, select)
    return Subject(None if subject is None else selection_of(subject, {}), None, published)


def selection_of(
    selection: Answer | Selection | str | None, select: Mapping[str, object]
) -> Selection:
    """The selection that is meant: its own, a derivation's, a text's or that of its fields."""
    match selection:
        case None:
            return record(Selection, "a selection", select)
        case str():
            # an update contains the learning rate, and no optimizer is called so
            field = "update" if re.search(r"\beta\b", selection) else "optimizer"
            if field in select:
                raise InputError(f"{field} is given twice: {selection!r} and {select[field]!r}")
            return record(Selection, "a selection", {**select, field: selection})
        case Selection() | object(selection=Selection()):  # a derivation has its own
            if select:
                raise InputError(f"give a Selection or its fields, not both: {', '.join(select)}")
            return selection if isinstance(selection, Selection) else selection.selection
    raise InputError(
        f"{selection!r:.60} is no selection: give the name of an optimizer, an update in eta, g "
        "and theta, or a Selection"
    )


def derived(given: Answer | Selection | str | None) -> Derivation:
    """A derivation as it is; a selection, or a text that stands for one, is derived."""
    from deepnet_theory.proof.derivation import Derivation, derive

    return given if isinstance(given, Derivation) else derive(selection_of(given, {}))
