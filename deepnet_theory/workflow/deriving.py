"""A rule: derived, beside those of all closures, of a published scheme, and of one's own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Unpack

from deepnet_theory.sizes.norm_epsilon import with_norm_epsilon
from deepnet_theory.spec.discovery import choose
from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.rule import own_rule as _own_rule
from deepnet_theory.spec.selection import Select, Selection
from deepnet_theory.spec.stack import DepthLike, parse_depth
from deepnet_theory.workflow.given import selection_of

if TYPE_CHECKING:
    from sympy import Expr

    from deepnet_theory.sizes.consequences import Comparison
    from deepnet_theory.sizes.judgement import Judgement
    from deepnet_theory.sizes.parametrisations import WidthJudgement
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.symbolic.width import WidthDerivation


def derive(
    selection: Selection | str | None = None,
    *,
    depth: DepthLike | None = None,
    **select: Unpack[Select],
) -> Derivation:
    r"""Derive the rule for a selection: ``derive("lamb")``, or ``derive(optimizer="lamb")``.

    .. math:: x_{l+1} = \mathrm{norm}(\alpha x_l + \beta B(x_l)), \qquad
              \alpha, \beta:\ \|\Delta F\| = \Theta(\eta) \text{ at every depth}

    for post-LN; a placement brings its own equation. α and β are exact expressions in the
    depths N and M. A text in place of a selection is the name of an optimizer, or an update, which
    contains ``eta``. ``select`` are the fields of :class:`~deepnet_theory.spec.selection.Selection`
    (``optimizer`` or ``update``, ``placement``, ``norm``, ``stack``, ``layer``, ``method``,
    ``closure`` …); with ``depth`` the derivation also prints its numbers there.
    Raises :class:`InputError` for unknown names and :class:`Refusal` where no rule exists.

    Source: every step names its own; Su Jianlin's posts (probe), DeepNet, arXiv 2203.00555
    (lemma, its bounds corrected), moments of Gaussian matrices (moments).
    """
    from deepnet_theory.symbolic.derive import derive as run

    selection = selection_of(selection, select)
    # A bad depth is refused before the derivation is made.
    at = {} if depth is None else parse_depth(depth, selection.the_stack)
    derivation = run(selection)
    return derivation.at(**at) if at else derivation


def derive_across(
    selection: Selection | str | None = None,
    across: str = "width",
    *,
    alignment: str = "full",
    form: str = "forward",
    depth: DepthLike | None = None,
    width: int | None = None,
    base_width: int | None = None,
    base_depth: DepthLike | None = None,
    **select: Unpack[Select],
) -> WidthDerivation:
    """Derive what every role takes in the width d, or with ``across="both"`` in N and M too.

    As in ``derive_across("adam")``. ``alignment`` full says that updates meet inputs like those
    that made them, none that they do not; ``form`` forward puts the head's factor into the forward
    pass, weights into its initial size. With ``width`` and ``base_width`` (across both: the depths
    too) the derivation prints numbers: what each size is in units of the base model's own. Raises
    :class:`InputError` for what is none of these, and :class:`Refusal` where no role has a rate.

    Source: the conditions as in arXiv 2011.14522, 2203.03466 and 2310.17813; the sizes of updates
    are derived.
    """
    from deepnet_theory.sizes.width import Scale, width_table
    from deepnet_theory.symbolic.width import WidthDerivation

    selection = selection_of(selection, select)
    table = width_table(selection, across, alignment, form)
    given = {"width": width, "base width": base_width}
    if across == "both":
        given |= {"depth": depth, "base depth": base_depth}  # type: ignore[dict-item]
    elif depth is not None or base_depth is not None:
        raise InputError("a depth needs across both: across width nothing depends on it")
    missing = [name for name, value in given.items() if value is None]
    if missing and len(missing) < len(given):
        raise InputError(f"numbers need {', '.join(given)}; missing: {', '.join(missing)}")
    if width is None or base_width is None:
        return WidthDerivation(table)
    deep = [{} if of is None else parse_depth(of, selection.the_stack)
            for of in (depth, base_depth)]  # fmt: skip
    scale = Scale(width, base_width, *(tuple(layers.items()) for layers in deep))
    return WidthDerivation(table, scale)


def compare_closures(
    selection: Selection | str | None = None,
    *,
    depth: DepthLike | None = None,
    **select: Unpack[Select],
) -> Comparison:
    """Every closure's rule and what it implies, side by side.

    As in ``compare_closures(optimizer="sgd")``: ``select`` and ``depth`` are those of
    :func:`derive`, without ``closure``. Raises :class:`Refusal` where no closure balances.
    """
    from deepnet_theory.sizes.answer import for_training
    from deepnet_theory.sizes.consequences import compare_closures as run

    selection = selection_of(selection, select)
    if selection.closure is not None:
        raise InputError(
            f"the closure {selection.closure!r} was given, but all closures are compared; "
            "leave it out"
        )
    at = {} if depth is None else parse_depth(depth, selection.the_stack)
    training = for_training(selection).closure
    return replace(run(selection), training=training, values=tuple(at.items()))


def judge_scheme(
    scheme: str,
    optimizer: str | None = None,
    *,
    update: str | None = None,
    across: str | None = None,
    alignment: str | None = None,
) -> Judgement | WidthJudgement:
    """What a published scheme does, under an optimizer (default: its own) and every other.

    As in ``judge_scheme("gpt-2")``; ``update`` is an update of one's own in eta, g and theta.
    ``across`` is "depth" or "width", by default the dimension that the scheme is published for,
    the depth where it is both; ``alignment`` belongs to the width. Raises :class:`InputError` for
    unknown names and :class:`Refusal` where a law is missing.
    """
    from deepnet_theory.sizes.judgement import judge
    from deepnet_theory.sizes.parametrisations import judge_parametrisation
    from deepnet_theory.spec.optimizer import custom_optimizer
    from deepnet_theory.spec.optimizer import optimizer as named
    from deepnet_theory.spec.parametrisation import FULL, parametrisations
    from deepnet_theory.spec.scheme import schemes

    if optimizer is not None and update is not None:
        raise InputError("a scheme is judged under one optimizer: give optimizer or update")
    if across not in (None, "depth", "width"):
        raise InputError(f"a scheme is judged across depth or across width, not across {across}")
    published = {
        dimension: folder
        for dimension, folder in (("depth", schemes()), ("width", parametrisations()))
        if across in (None, dimension)
    }
    every: dict[str, object] = {name: s for f in published.values() for name, s in f.items()}
    choose("scheme", scheme, every)
    under = None if optimizer is None else named(optimizer)
    under = custom_optimizer(update) if update is not None else under
    if scheme.lower() in published.get("depth", {}):
        if alignment is not None:
            raise InputError(f"alignment {alignment} needs across width")
        return judge(schemes()[scheme.lower()], under)
    return judge_parametrisation(parametrisations()[scheme.lower()], under, alignment or FULL)


def own_rule(
    selection: Selection | Derivation | str,
    alpha: str | float | Expr,
    beta: str | float | Expr,
    decoder_alpha: str | float | Expr | None = None,
    decoder_beta: str | float | Expr | None = None,
) -> Rule:
    """A rule of one's own for the stack of ``selection``: α and β in N and M.

    ``own_rule(selection, "N**(1/3)", "N**(-1/3)")``; texts are parsed by the grammar of depths,
    never evaluated as code, numbers and SymPy's expressions as the texts that they print. In
    place of a selection its derivation serves, or a text as in :func:`derive`. An
    encoder–decoder's decoder takes α and β of its own where they are given. The ε of a norm on
    what falls with the depth falls with it, as under a derived rule. Raises
    :class:`InputError` for what is none of these, or a decoder that is not there.
    """
    selection = selection_of(selection, {})
    parts = tuple(part.name for part in selection.the_stack.parts)
    if len(parts) == 1 and (decoder_alpha is not None or decoder_beta is not None):
        raise InputError(
            f"the stack {selection.stack!r} has one part; decoder-alpha and decoder-beta are "
            "valid with the stack 'encoder-decoder'"
        )
    decoder = [None if value is None else _text(value) for value in (decoder_alpha, decoder_beta)]
    rule = _own_rule(parts, _text(alpha), _text(beta), *decoder)
    return with_norm_epsilon(selection, rule)


def _text(value: str | float | Expr) -> str:
    """α or β as a text of the grammar of depths."""
    if isinstance(value, str):
        return value
    # bool is a number to Python and never meant as one; SymPy's expressions know what is free
    number = isinstance(value, Real) and not isinstance(value, bool)
    if number or hasattr(value, "free_symbols"):
        with suppress(ValueError):  # more digits than Python writes
            return str(value)
    raise InputError(
        f"{shown(value)} is no alpha or beta: give an expression in N and M, as a text such as "
        '"N**(1/4)", or a number'
    )
