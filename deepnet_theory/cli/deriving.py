"""A rule: derived, compared over closures, published or your own; and its constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, overload

from deepnet_theory.definitions import rule as rules
from deepnet_theory.definitions import scheme as schemes
from deepnet_theory.definitions import selection as known
from deepnet_theory.definitions.constants import FORMS, Budget, Constants
from deepnet_theory.definitions.outcome import InputError, shown, unknown
from deepnet_theory.definitions.record import Option, read, taken
from deepnet_theory.definitions.rule import Rule
from deepnet_theory.definitions.scheme import Scheme, measurable
from deepnet_theory.definitions.selection import BaseLike, DepthLike, Selection, parse_depth
from deepnet_theory.sizes.answer import Answer

if TYPE_CHECKING:
    from sympy import Expr

    from deepnet_theory.proof.derivation import Derivation
    from deepnet_theory.proof.width import RoleDerivation


DIMENSIONS = ("depth", *known.ACROSS, "batch", *known.SHAPES)
NEEDS = {  # the keywords of `derive` that a dimension has
    "width": ("width", "base_width", "base_depth", "form", "alignment"),
    "depth": ("depth", "base_depth"),
    "batch": ("gradient_noise", "curve"),
}
Alignment = Annotated[str | None, Option("NAME", "In width, full or none; full", known.ALIGNMENTS)]
Across = Annotated[str, Option("LIST", f"A list of {', '.join(DIMENSIONS)}", DIMENSIONS)]
Depth = Annotated[DepthLike | None, Option("N[,M]", "Layers of the model")]
Form = Annotated[str | None, Option("NAME", "Where factors are: forward (pass) or weights", FORMS)]
Noise = Annotated[str | None, Option("NAME", "In a batch: dominant or none", known.GRADIENT_NOISE)]


@overload
def derive(
    selection: Selection | str | None = None, *, across: Literal["width", "both"], **given: Any
) -> RoleDerivation: ...
@overload
def derive(selection: Selection | str | None = None, **given: Any) -> Derivation: ...
def derive(
    selection: Selection | str | None = None,
    *,
    across: Across = "depth",
    gradient_noise: Noise = None,
    curve: Annotated[bool, Option("", "In a batch: the best rate between the regimes")] = False,
    depth: Depth = None,
    alignment: Alignment = None,
    form: Form = None,
    width: Annotated[int | None, Option("D", "Width of the model")] = None,
    base_width: Annotated[int | None, Option("D0", "Width of the tuned model")] = None,
    base_depth: Annotated[DepthLike | None, Option("N0[,M0]", "Layers of the tuned model")] = None,
    **select: Any,
) -> Derivation | RoleDerivation:
    r"""Derive the rule for a selection: ``derive("lamb")``, or ``derive(optimizer="lamb")``.

    .. math:: x_{l+1} = \mathrm{norm}(\alpha x_l + \beta B(x_l)), \qquad
              \alpha, \beta:\ \|\Delta F\| = \Theta(\eta) \text{ at every depth}

    This is post-LN's equation; each placement has its own. α and β are exact in the depths N and M.
    A text stands for a selection: the name of an optimizer, or an update, which contains ``eta``.
    ``select`` are the fields of :class:`~deepnet_theory.definitions.selection.Selection`.

    ``across`` "width" or "both" gives a table by role in the width d, or in d, N and M.
    ``alignment`` "full" says that updates meet inputs like those that made them. ``form`` "forward"
    puts the head's factor into the forward pass, "weights" into its initial size. With ``width``
    and ``base_width`` (across both: the depths too) each size is also a number, relative to the
    base model. "batch" in ``across`` gives the multipliers of rate, decays, ε and memory in the
    batch size B, where ``gradient_noise`` is "dominant" or "none". "heads", "kv-heads", "ffn"
    (hidden units), "vocab", "experts", "top-k" (experts for a token) and "rank" (of an adapter)
    give what every role takes as one of them grows alone. Exponents of a list add.

    Raises :class:`InputError` for bad input and :class:`Refusal` where no rule exists.

    Source: every step names its own; Su Jianlin's posts (probe), DeepNet, arXiv 2203.00555
    (lemma, its bounds corrected); in width the conditions are those of arXiv 2011.14522, 2203.03466
    and 2310.17813, and the sizes of updates are derived.
    """
    selection, asked = selection_of(selection, select), _dimensions(across)
    shapes = [name for name in asked if name in known.SHAPES]
    sizes: dict[str, Any] = {"width": width, "base_width": base_width}
    sizes |= {"depth": depth, "base_depth": base_depth}
    given = {**sizes, "form": form, "alignment": alignment}
    given |= {"gradient_noise": gradient_noise, "curve": curve or None}
    for dimension, names in NEEDS.items():
        if dimension not in asked and not (shapes and dimension == "width"):
            refuse(given, f"without across {dimension}", *names)
    if shapes:
        refuse(sizes, f"with across {shapes[0]}")
        adapted = "rank" in shapes
        if "depth" in asked and (adapted or "width" not in asked):
            why = "rank has no law in the depth" if adapted else "depth needs width beside it"
            raise InputError(f"across {across}: {why}")
    # a bad depth is refused before the derivation is made
    values = {} if depth is None else parse_depth(depth, selection.the_stack)
    if asked == ["depth"]:
        found = derived(Answer(selection))
        return found.at(**values) if values else found
    from deepnet_theory.proof.width import RoleDerivation
    from deepnet_theory.sizes.width import Scale, role_table

    grown = [name for name in ("depth", "width", *shapes, "batch") if name in asked]
    table = role_table(
        selection,
        "both" if grown == ["depth", "width"] else ",".join(grown),
        alignment or known.ALIGNMENTS[0],
        form or FORMS[0],
        gradient_noise=gradient_noise or known.GRADIENT_NOISE[0],
    )
    needed = [*sizes][: 4 if "depth" in asked else 2] if "width" in asked else []
    missing = [name for name in needed if sizes[name] is None]
    if 0 < len(missing) < len(needed):
        raise InputError(f"numbers need {', '.join(needed)}; missing: {', '.join(missing)}")
    scale = None
    if needed and not missing:
        layers = [parse_depth(sizes[name], selection.the_stack) for name in needed[2:]]
        deep = {n: (layers[0][n], layers[1][n]) for n in (layers[0] if layers else ())}
        scale = Scale({"d": (sizes["width"], sizes["base_width"]), **deep})
    return RoleDerivation(table, scale, tuple(values.items()), curve)


def _dimensions(across: str) -> list[str]:
    """The dimensions of a list such as ``width,batch``."""
    names = across.replace("both", "depth,width").split(",")
    for name in names:
        if name not in DIMENSIONS:
            raise unknown("across", name, DIMENSIONS)
    if len(set(names)) < len(names):
        raise InputError(f"across {shown(across)} names a dimension twice")
    return names


def own_rule(
    selection: Answer | Selection | str,
    alpha: str | float | Expr,
    beta: str | float | Expr,
    decoder_alpha: str | float | Expr | None = None,
    decoder_beta: str | float | Expr | None = None,
) -> Rule:
    """Your own rule for the stack of a selection or of a derivation: α and β in N and M.

    They are numbers, SymPy expressions or texts, which are never evaluated as code. Raises
    :class:`InputError` for any other value, or for a decoder where the stack has none.
    """
    parts = (part.name for part in selection_of(selection, {}).the_stack.parts)
    return rules.own_rule((*parts,), alpha, beta, decoder_alpha, decoder_beta)


def export(
    answer: Answer | Selection | str | None = None,
    depth: Depth = None,
    *,
    form: Form = None,
    base: BaseLike | None = None,
    base_heads: Annotated[int | None, Option("H0", "Heads of the tuned model")] = None,
    base_shape: Annotated[
        str | None,
        Option("NAME=X,…", "Other sizes of the tuned model: ffn, vocab, kv-heads, experts, top-k"),
    ] = None,
    alignment: str = known.ALIGNMENTS[0],
    **given: Any,
) -> Constants:
    """The constants of one model to train: a rule's values at a depth, and where they came from.

    ``given`` are the fields of a selection and of
    :class:`~deepnet_theory.definitions.constants.Architecture` (``width``, ``heads`` …). A ``rule``
    of your own, ``alpha`` and ``beta``, or a published ``scheme`` takes the place of the derived
    rule.

    ``form`` "weights" puts α into the last matrix of each branch. ``base`` is the width, or (width,
    depth), of a smaller model that was tuned: rates, ε and decays become multiples of that model's.
    ``base_heads`` is its number of heads where they have another width, ``base_shape`` its other
    sizes as ``"experts=8"``, or a third part of ``base`` as ``{"experts": 8}``. ``alignment`` is
    that of updates with their inputs. With the fields of
    :class:`~deepnet_theory.definitions.constants.Budget` the multipliers are for another ``batch``
    or ``horizon`` (number of steps) than those of the tuned run.

    Warns (:class:`~deepnet_theory.definitions.outcome.UnstableWarning`) of a relative update ρ that
    grows with the depth. Raises :class:`InputError` for a bad depth or sizes that do not fit each
    other, and :class:`Refusal` where constants cannot hold the rule or the stream explodes.

    Source: the rule's own; its formulas are exported too, under ``origin``.
    """
    from deepnet_theory.sizes import exported

    subject = subject_of(answer, given, "stack", "layer", "norm")
    selection, run = subject.answer.selection, taken(given, [f.name for f in fields(Budget)])
    budget, form = Budget(**run), form or FORMS[0]
    if alignment not in known.ALIGNMENTS:
        raise unknown("alignment", alignment, known.ALIGNMENTS)
    if (scheme := subject.scheme) is not None:
        has_own = f"with the scheme {scheme.name!r}, which has constants of its own"
        refuse({"base": base, "base_heads": base_heads}, has_own)
        constants = exported.constants_of_scheme(scheme, selection, depth, form, given)
    else:
        if base_shape is not None:
            width, layers, *_ = base if isinstance(base, tuple) else (base, None)
            pairs = (one.partition("=") for one in base_shape.replace(" ", "").split(","))
            base = (width, layers, {name: size for name, _, size in pairs})
        # the constants at another depth too: those of the base model
        own, of = subject.rule, exported.constants_of
        there = partial(of, subject.answer, rule=own, form=form, sizes=given)
        constants = there(depth)
        if base is None:
            refuse({"base_heads": base_heads}, "without a base width")
        else:
            constants = exported.on_base(there, constants, selection, base, base_heads, alignment)
    if run:
        constants = exported.in_budget(constants, budget)
    constants.warn()
    return constants


# ---- what the verbs are given, as values ----


def refuse(given: Mapping[str, object], why: str, *names: str) -> None:
    """Raise :class:`InputError` for the first of these names, or of all, that was given."""
    for name in names or given:
        if given.get(name) is not None:
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
    """What a verb is about: an answer's rule, or your own or a published scheme in its place."""

    answer: Answer
    rule: Rule | None = None
    scheme: Scheme | None = None

    def measured(self) -> tuple[Selection, Rule]:
        """The stack that is built, and what it is scaled by."""
        selection = self.answer.selection
        if self.scheme is not None:
            return measurable(self.scheme, selection.optimizer, selection.update)
        return selection, self.rule or self.answer.rule


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
    published = None if scheme is None else schemes.scheme(scheme)
    if published is not None:
        others = {n: v for n, v in select.items() if n not in ("optimizer", "update", *stack)}
        judged = "which has its own; a scheme is judged under an optimizer or an update"
        refuse({**own, **others, "rule": rule}, f"with the scheme {scheme!r}, {judged}")
        if subject is None:
            select = {"stack": published.stack, "norm": published.norm, **select}
            if not {"optimizer", "update"} & select.keys():
                subject = published.optimizer
    elif own and not {"alpha", "beta"} <= own.keys():
        raise InputError(f"{next(iter(own))} was given: alpha and beta must be given together")
    if select or not isinstance(subject, Answer):
        subject = Answer(selection_of(subject, select))
    return Subject(subject, own_rule(subject, **own) if own else rule, published)


def selection_of(
    selection: Answer | Selection | str | None, select: Mapping[str, object]
) -> Selection:
    """The selection that is meant: its own, a derivation's, a text's or that of its fields."""
    if isinstance(selection, Answer):
        selection = selection.selection
    if isinstance(selection, Selection):
        if select:
            raise InputError(f"give a Selection or its fields, not both: {', '.join(select)}")
        return selection
    if isinstance(selection, str):
        # an update contains the learning rate, and no optimizer is called so
        field = "update" if re.search(r"\beta\b", selection) else "optimizer"
        if field in select:
            raise InputError(f"{field} is given twice: {selection!r} and {select[field]!r}")
        select = {**select, field: selection}
    elif selection is not None:
        raise InputError(
            f"{selection!r:.60} is no selection: give the name of an optimizer, an update in eta, "
            "g and theta, or a Selection"
        )
    made: Selection = read(Selection, select, "a selection")
    return made


def derived(answer: Answer) -> Derivation:
    """The derivation of an answer, which may be one already."""
    from deepnet_theory.proof.derivation import Derivation, derive

    return answer if isinstance(answer, Derivation) else derive(answer.selection)
