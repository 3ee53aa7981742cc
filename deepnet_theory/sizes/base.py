r"""The constants of a model relative to a smaller one that was tuned, its base.

Each number is the base's own times what the rule makes of it on the way from there:

.. math:: \mathrm{number}(d) = \mathrm{number}(d_0)\,(d/d_0)^e

with e of the role's row (:func:`~deepnet_theory.sizes.width.row_of`) at the sizes and multipliers
that the model of ``build`` has: its embedding is √d·E with entries of size 1/√d, and its matrices
are drawn by Xavier's law. With a base depth the same holds in N and M: the base is then a plain
model, each of its numbers 1.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from deepnet_theory.sizes.entries import FULL, HALF
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.sizes.update import is_coupled
from deepnet_theory.sizes.width import (
    TIED,
    WEIGHTS,
    D,
    K,
    Place,
    Point,
    Scale,
    WidthRow,
    places,
    row_of,
    rule_point,
    scores,
)
from deepnet_theory.spec.constants import Architecture, Constants, SublayerConstants
from deepnet_theory.spec.errors import InputError, Refusal, shown
from deepnet_theory.spec.rule import KNOBS, ParameterConstants
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import BaseLike, Stack, parse_depth
from deepnet_theory.spec.sublayer import Role


@dataclass(frozen=True)
class Base:
    """The base: its width and heads, and its depth by symbol, None where depth is no matter."""

    width: int
    heads: int
    depth: Mapping[str, int] | None = None

    @classmethod
    def parse(cls, given: BaseLike, heads: int | None, stack: Stack, of: Architecture) -> Base:
        """A width, or a width and a depth; None is the model's own.

        Without ``heads`` the base's are as wide as the model's. Raises :class:`InputError` for what
        is none, and where heads do not fit its width.
        """
        pair = given if isinstance(given, tuple | list) else (given, None)
        width, depth = pair if len(pair) == 2 else (None, None)
        width = of.width if width is None and depth is not None else width
        if type(width) is not int or width < 1:
            raise InputError(
                f"the base {shown(given)} is none: give its width, or (width, depth) as (64, 4)"
            )
        k = of.width // of.heads
        own = heads if heads is not None else width // k if width % k == 0 else None
        if type(own) is not int or own < 1 or width % own:
            what = f"heads of width {k}" if heads is None else f"{shown(heads)} heads"
            raise InputError(
                f"{what} do not divide the base width {width}: give a multiple of {k}, or the "
                "base's own number of heads (--base-heads, base_heads)"
            )
        if of.kv_heads and of.kv_heads * own % of.heads:
            raise InputError(
                f"{of.kv_heads} key and value heads of {of.heads} are no whole number of the "
                f"base's {own}"
            )
        return cls(width, own, None if depth is None else parse_depth(depth, stack))


def builder_point(selection: Selection, alignment: str, form: str, tied: bool) -> Point:
    """The rule's sizes and multipliers in the gauge of the model that is built.

    Raises :class:`Refusal` where a tied head needs a multiplier that the form leaves out.
    """
    point = rule_point({p.role: p for p in places(selection)}, alignment, form)
    multipliers, inits = dict(point.multipliers), dict(point.inits)
    for role in ("token-embedding", TIED):
        size = inits[role]
        assert size is not None
        inits[role] = D**-HALF
        multipliers[role] *= size * D**HALF
    if tied:
        multipliers["head"], inits["head"] = multipliers[TIED], inits[TIED]
        if form == WEIGHTS and multipliers[TIED] != ONE:
            raise Refusal(
                f"a tied head reads the embedding through a multiplier of {multipliers[TIED]}, d "
                "the width, which the form 'weights' leaves out; take the form 'forward', or a "
                "head of its own"
            )
    return Point(multipliers, inits)


def every(_: Place) -> bool:
    """Every role is stepped by the selection's own optimizer."""
    return True


def outer_rows(
    selection: Selection, point: Point, alignment: str, tied: bool,
    stepped: Callable[[Place], bool] = every,
) -> dict[str, WidthRow]:  # fmt: skip
    """The rows of embedding, head and final norm by their names in the constants.

    Raises :class:`Refusal` where a tied head would need two rates.
    """
    optimizer, found = selection.the_optimizer, {p.role: p for p in places(selection)}
    token = found["token-embedding"]
    plain = Point({**point.multipliers, token.role: ONE}, {**point.inits, token.role: ONE})
    norms = {"norm_gain": Role.NORM_GAIN, "norm_bias": Role.NORM_BIAS}  # as those of the branches
    rows = {
        "embedding": row_of(token, point, optimizer, alignment),
        "token_embedding": row_of(token, plain, optimizer, alignment),
        "head": row_of(found["head"], point, optimizer, alignment),
        "head_bias": row_of(found["head-bias"], point, optimizer, alignment),
        **{
            name: row_of(found[role], point, optimizer, alignment)
            for name, role in norms.items()
            if selection.final_norm and role in found
        },
    }
    if tied:
        one, other = rows["embedding"], rows.pop("head")
        if one.rate != other.rate and stepped(token):
            raise Refusal(
                f"a tied head asks for two learning rates of one matrix: {one.rate} as the "
                f"embedding and {other.rate} as the head, d the width; give the head a matrix of "
                "its own"
            )
    return rows


def relative(
    model: Constants, selection: Selection, scale: Scale, heads: int, alignment: str = FULL,
    shallow: Constants | None = None, stepped: Callable[[Place], bool] = every,
) -> Constants:  # fmt: skip
    """The constants of a model relative to a base of ``heads`` heads.

    ``shallow`` are those of the base's depth, None where the model's numbers in depth stand as they
    are; ``stepped`` are the roles that need a law, all but another optimizer's. Raises
    :class:`Refusal` where such a role has none, where a tied head needs two rates, and where the
    form has no place for a multiplier.
    """
    a, optimizer = model.architecture, selection.the_optimizer
    point = builder_point(selection, alignment, model.form, a.tied_head)
    rows = {
        (p.part, p.sublayer, p.parameter): row_of(p, point, optimizer, alignment)
        for p in places(selection)
        if p.sublayer
    }
    outer = outer_rows(selection, point, alignment, a.tied_head, stepped)
    if not a.head_bias:
        del outer["head_bias"]
    for row in (*rows.values(), *outer.values()):
        needed = stepped(row.place) and (a.bias or not row.place.starts_at_zero)
        if row.refused and needed:
            raise Refusal(f"{row.role}: {row.refused}")
    # 1/√k at the base, and what the conditions ask for from there on
    power = (scores(alignment) * K**HALF).exponent("k")
    of_scores = float((a.width / a.heads / (scale.base_width / heads)) ** float(power))
    if of_scores != 1 and model.form == WEIGHTS:
        raise Refusal(
            "the head size differs from the base's, so that the scores need a multiplier, which "
            "the form 'weights' leaves out; keep the head size, or take the form 'forward'"
        )
    eta = model.eta / (1.0 if shallow is None else shallow.eta)
    coupled = is_coupled(optimizer)
    parts = []
    for index, part in enumerate(model.parts):
        below = None if shallow is None else shallow.parts[index]
        sublayers = []
        for at, s in enumerate(part.sublayers):
            parameters = {}
            for (of, kind, name), row in rows.items():
                if (of, kind) == (part.name, s.kind):
                    own, deep = (
                        None if c is None else c.parameter(of, at, name, row.place.kind)
                        for c in (model, shallow)
                    )
                    assert own is not None
                    parameters[name] = _times(own, row, scale, coupled, deep)
            in_depth = s if below is None else _over(s, below.sublayers[at])
            sublayers.append(replace(in_depth, parameters=parameters))
        parts.append(replace(part, sublayers=tuple(sublayers)))
    return replace(
        model,
        eta=eta,
        parts=tuple(parts),
        head_multiplier=scale.ratio(point.multipliers["head"]),
        scores=of_scores,
        outer={
            name: _times(_outside(row, scale, a, eta), row, scale, coupled)
            for name, row in outer.items()
        },
    )


def _over(s: SublayerConstants, base: SublayerConstants) -> SublayerConstants:
    return replace(
        s, alpha=s.alpha / base.alpha, beta=s.beta / base.beta, rate=s.rate / base.rate,
        gains={name: gain / base.gain(name) for name, gain in s.gains.items()},
        norm_epsilon={w: e / base.norm_epsilon.get(w, 1.0) for w, e in s.norm_epsilon.items()},
    )  # fmt: skip


def _outside(row: WidthRow, scale: Scale, a: Architecture, eta: float) -> ParameterConstants:
    """What a parameter outside the stack starts with; its decay keeps the share of a step."""
    gain = 0.0 if row.init is None else 1.0
    if row.role == "head" and row.init is not None:
        # Xavier's size of a (vocab, width) matrix is no power of the width
        fans = (a.width + a.vocab) / (scale.base_width + a.vocab)
        gain = scale.ratio(row.init) * math.sqrt(fans)
    return ParameterConstants(
        gain, weight_decay=row.place.is_matrix / eta, formulas={"gain": str(row.init or 0)}
    )


def _times(
    own: ParameterConstants, row: WidthRow, scale: Scale, coupled: bool,
    deep: ParameterConstants | None = None,
) -> ParameterConstants:  # fmt: skip
    """What a parameter steps with in depth, over that of the base's depth, times the width's."""
    decay, refused = row.decay, None
    if coupled:  # added to the gradient
        decay, refused = row.coupled_decay, row.coupled_refused
    values, formulas = {}, {}
    for knob, by in zip(KNOBS, (None, row.rate, row.epsilon, decay), strict=True):
        value = getattr(own, knob)
        by = by or ONE
        values[knob] = value / (getattr(deep, knob, 1.0) or 1.0) * scale.ratio(by)
        formulas[knob] = _product(own.formulas.get(knob, f"{value:.10g}"), by)
    if refused:
        values["weight_decay"], formulas["weight_decay"] = 0.0, refused
    return ParameterConstants(**values, formulas=formulas)


def _product(text: str, by: Monomial) -> str:
    """A formula in depth times a monomial, as a text."""
    if by == ONE or text == "0":
        return text
    try:
        return str(parse(text) * by)
    except ValueError:  # an expression of one's own
        return f"({text})*{by}"
