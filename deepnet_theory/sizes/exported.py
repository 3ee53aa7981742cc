r"""The constants of a rule or a scheme at a depth, and relative to a smaller model, the base.

What a model starts and steps with at a depth are the rule's texts, evaluated. Relative to a base
that was tuned, each number is the base's own times its factor by the rule on the way to a width:

.. math:: \mathrm{number}(d) = \mathrm{number}(d_0)\,(d/d_0)^e

with e of the role's row (:func:`~deepnet_theory.sizes.width.row_of`) at the sizes and multipliers
that the model of ``build`` has: its embedding is √d·E with entries of size 1/√d, and its matrices
are drawn by Xavier's law. In depth the base is the rule's own model: it has the rule's α, β and
norms at its N and M, as every model has at its own, and what is relative to it are rates, ε and
decays.

Source: derived here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.constants import (
    FORMS,
    WEIGHTS,
    Address,
    Architecture,
    Base,
    Budget,
    Constants,
    SublayerConstants,
)
from deepnet_theory.definitions.expression import evaluate
from deepnet_theory.definitions.outcome import InputError, Refusal, shown, unknown
from deepnet_theory.definitions.record import read, written
from deepnet_theory.definitions.rule import KNOBS, ParameterConstants, Rule, RuleEntry
from deepnet_theory.definitions.scheme import WIDTH, Scheme, not_exportable
from deepnet_theory.definitions.selection import BaseLike, DepthLike, Selection, Stack, parse_depth
from deepnet_theory.definitions.sublayer import MATRICES, ROUTER, Role, Sublayer, sublayer
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.batch import B
from deepnet_theory.sizes.equivalence import with_alpha_in_weights
from deepnet_theory.sizes.exponents import Exponents
from deepnet_theory.sizes.laws import OF_NORMS
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.rule import DerivedRule, at_sizes
from deepnet_theory.sizes.table import D, ParameterRow, Place, Table
from deepnet_theory.sizes.update import FULL, HALF, MANY, is_coupled
from deepnet_theory.sizes.width import (
    TIED,
    K,
    Point,
    Scale,
    places,
    product,
    require_multipliers,
    require_one_rate,
    role_table,
    row_of,
    rule_point,
    scores,
    share,
)

LONGER = Monomial.of("T")  # times the updates, at a rate that stays
Steps = Callable[[Place], bool]  # the roles that need a law, all but another optimizer's


def constants_of(
    answer: Answer,
    depth: DepthLike | None,
    rule: Rule | None,
    form: str,
    sizes: Mapping[str, Any],
) -> Constants:
    """The constants of the rule of an answer, or of your own in its place."""
    selection = answer.selection
    layers = parse_depth(depth, selection.the_stack)
    architecture = read(Architecture, sizes, "an architecture")
    if rule is not None:
        warning = Exponents(selection, rule).unstable
        c = Constants.of(selection, rule, layers, architecture, warning=warning)
        return _as_exported(c, selection, rule, form, row="own", rows={}, verdict="ASSUMED")
    selection = answer.table.rule.selection  # with the closure by name
    told = {"warning": answer.warning, "condition": answer.condition}
    own = answer.table.at(**layers)
    c = Constants.of(selection, answer.rule, layers, architecture, own, **told)
    return _as_exported(
        c,
        selection,
        answer.rule,
        form,
        parameters=[row.to_dict() for row in answer.parameters],
        row=answer.rows[0].named,
        rows={row.named: row.rule.told(**layers) for row in answer.rows},
        in_depth=answer.in_depth,
        verdict="computed; derive proves it",
    )


def _as_exported(
    c: Constants, selection: Selection, rule: Rule, form: str, **origin: object
) -> Constants:
    """The constants in a form, with where they came from."""
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    meaning = rule.meaning
    if form == WEIGHTS:
        bare, c = c, with_alpha_in_weights(selection, c)
        meaning += "; alpha is in the last matrices" * (c.parts != bare.parts)
    about = {
        "package": f"deepnet-theory {__version__}",
        "select": selection.to_dict(),
        "rule": rule.name,
        "meaning": meaning,
        "formulas": [entry.to_dict() for entry in rule.entries],
        "eta": rule.eta,
        "depth": parse_depth([p.layers for p in c.parts], selection.the_stack),
    }
    return replace(c, origin={**about, **origin})


def constants_of_scheme(
    given: Scheme,
    selection: Selection,
    depth: DepthLike | None,
    form: str,
    sizes: Mapping[str, Any],
) -> Constants:
    """The constants that a scheme's author published, for the stack of a selection.

    Raises :class:`Refusal` for a scheme that constants do not hold, :class:`InputError` for a stack
    or a layer that it says nothing of.
    """
    if lacking := not_exportable(given):
        raise Refusal(
            f"the scheme {given.name!r} cannot be exported: constants have no place for {lacking}"
        )
    if len(given.parts) != len(selection.the_stack.parts):
        raise InputError(
            f"the scheme {given.name!r} sets constants for the stack {given.stack!r}, not for "
            f"{selection.stack!r}"
        )
    layer = selection.layer or given.named_layer
    if given.layer is not None and layer != given.named_layer:
        raise InputError(
            f"the scheme {given.name!r} is of the layer {given.named_layer}, not of {layer}"
        )
    where = given.named_placement or selection.placement
    selection = replace(selection, placement=where, layer=layer)
    layers = parse_depth(depth, selection.the_stack)
    # a scheme of one part says N in any stack
    at = layers if len(layers) > 1 else {"N": max(layers.values())}
    parts = dict(zip((p.name for p in selection.the_stack.parts), given.parts, strict=True))
    entries = [
        _entry(given, part.name, s, parts[part.name])
        for part in selection.the_stack.parts
        for s in dict.fromkeys(part.layer)
    ]
    rule = Rule(given.name, tuple(entries), meaning=f"as published, not derived: {given.source}")
    a, warning = read(Architecture, sizes, "an architecture"), Exponents(selection, rule).unstable
    c = Constants.of(selection, rule, {**at, **layers}, a, warning=warning)
    c = c.mapped(lambda *place: _stepped(given, a, place[-1], at))
    told = {given.name: rule.told(**at)}
    names = {"scheme": given.name, "source": given.source, "row": given.name, "rows": told}
    return _as_exported(c, selection, rule, form, verdict="ASSUMED", **names)


def _entry(given: Scheme, part: str, s: Sublayer, published: RuleEntry) -> RuleEntry:
    """One β where the scaled matrices have one gain and the others 1; else all of them."""
    gains = {m.name: published.gain(m) for m in s.matrices}
    rate, betas = given.rate_of(Role.SCALED), {gains[m.name] for m in s.scaled}
    if len(betas) == 1 and all(gains[m.name] == "1" for m in s.unscaled):
        return RuleEntry(part, s.name, published.alpha, betas.pop(), rate)
    return RuleEntry(part, s.name, published.alpha, rate=rate, gains=gains)


def _stepped(
    given: Scheme, a: Architecture, s: SublayerConstants, at: Mapping[str, int]
) -> SublayerConstants:
    """With the sizes and the multipliers that the scheme has of its own."""
    kind, parameters = sublayer(s.kind), {}
    if given.std:
        std = evaluate(WIDTH.parse(given.std), d=a.width)
        sizes = {m.name: std / math.sqrt(2 / sum(a.fans(m))) for m in kind.matrices}
        s = replace(s, beta=1.0, gains={name: s.gain(name) * size for name, size in sizes.items()})
    every = {p.name: p.role for p in kind.parameters} | OF_NORMS
    knobs = given.rates, given.epsilon
    for name, role in every.items() if any(knobs) else ():
        rate, epsilon = (given.value(by.get(role, "1"), **at) for by in knobs)
        gain = s.gain(name) if role in MATRICES else float(name == "norm_gain")
        parameters[name] = ParameterConstants(gain, rate, epsilon, float(role in MATRICES))
    return replace(s, parameters=parameters)


# ---- relative to a base ----


def base_of(given: BaseLike, heads: int | None, stack: Stack, c: Constants, alignment: str) -> Base:
    """A width, (width, depth), or with other shapes a third; None is the model's own.

    Without ``heads`` the base's are as wide as the model's. With shapes and no depth it is as deep
    as the model. Raises :class:`InputError` for what is none, and where heads do not fit its width.
    """
    a, parts = c.architecture, given if isinstance(given, tuple | list) else (given, None)
    width, depth, shape = (*parts, {})[:3] if len(parts) in (2, 3) else (None, None, {})
    if shape and depth is None:
        depth = [part.layers for part in c.parts]
    width = a.width if width is None and depth is not None else width
    if type(width) is not int or width < 1 or not isinstance(shape, Mapping):
        raise InputError(
            f"the base {shown(given)} is none: give its width, or (width, depth) as (64, 4)"
        )
    k = a.width // a.heads
    count = heads if heads is not None else width // k if width % k == 0 else None
    if type(count) is not int or count < 1 or width % count:
        what = f"heads of width {k}" if heads is None else f"{shown(heads)} heads"
        raise InputError(
            f"{what} do not divide the base width {width}: give a multiple of {k}, or the "
            "base's own number of heads (--base-heads, base_heads)"
        )
    own = shapes_of(stack, a, width, count)
    for name, size in shape.items():
        if name not in own:
            raise unknown("base shape", name, own)
        if not str(size).isdecimal() or not int(size):
            raise InputError(f"the base shape {name}={size} is none, as {name}={own[name]:g} is")
    if a.kv_heads and "kv-heads" not in shape and a.kv_heads * count % a.heads:
        raise InputError(
            f"{a.kv_heads} key and value heads of {a.heads} are no whole number of the "
            f"base's {count}"
        )
    layers = None if depth is None else parse_depth(depth, stack)
    return Base(width, count, layers, alignment, {name: int(n) for name, n in shape.items()})


def shapes_of(stack: Stack, a: Architecture, width: int, heads: int) -> dict[str, float]:
    """The sizes that a base may have otherwise, as it has them at its width and heads."""
    kv_heads = (a.kv_heads or a.heads) * heads / a.heads
    sizes = {"ffn": a.ffn_ratio * width, "vocab": a.vocab, "kv-heads": kv_heads}
    mixtures = {(s.experts, s.chosen) for s in stack.sublayers if s.experts > 1}
    if len(mixtures) == 1:  # of unlike mixtures no one number is meant
        sizes |= zip(("experts", "top-k"), *mixtures, strict=True)
    return sizes


def scale_of(base: Base, stack: Stack, c: Constants) -> Scale:
    """The model of constants over the base."""
    own = shapes_of(stack, c.architecture, base.width, base.heads)
    shapes = {name: own[name] / size for name, size in base.shape.items()}
    deep = zip(c.parts, (base.depth or {}).items(), strict=False)
    depth = {symbol: (part.layers, layers) for part, (symbol, layers) in deep}
    return Scale({"d": (c.architecture.width, base.width), **depth}, shapes)


def on_base(
    at_depth: Callable[[DepthLike], Constants],
    c: Constants,
    selection: Selection,
    base: BaseLike,
    heads: int | None = None,
    alignment: str = FULL,
    stepped: Steps = lambda _: True,
) -> Constants:
    """The constants c relative to a base; ``at_depth`` makes them at another depth.

    Raises :class:`Refusal` where a role that is ``stepped`` has no law, where a tied head needs two
    rates, and where the form has no place for a multiplier.
    """
    a, stack, by = c.architecture, selection.the_stack, selection.the_optimizer
    smaller = base_of(base, heads, stack, c, alignment)
    scale = scale_of(smaller, stack, c)
    if smaller.depth is not None:
        c = _over(c, at_depth(smaller.depth))
    if "experts" in smaller.shape and c.origin["row"] != "own":
        _require_one_start(selection, smaller.shape["experts"])
    rows, head = _in_width(c, selection, alignment, stepped)
    many, _ = _in_width(c, selection, alignment, stepped, MANY)
    # 1/√k at the base, and what the conditions ask for from there on
    power = (scores(alignment) * K**HALF).exponent("k")
    of_scores = float((a.width / a.heads / (smaller.width / smaller.heads)) ** float(power))
    if of_scores != 1 and c.form == WEIGHTS:
        raise Refusal(
            "the head size differs from the base's, so that the scores need a multiplier, which "
            "the form 'weights' leaves out; keep the head size, or take the form 'forward'"
        )
    if shapes := ",".join(smaller.shape):
        others = role_table(selection, shapes, alignment, c.form, built=True).rows
        known = {row.place.known: row for row in others}
        pairs = ((at, row, known.get(row.place.known)) for at, row in rows.items())
        rows = {at: product(row, other) if other else row for at, row, other in pairs}
    _require_laws(rows.values(), a, stepped)
    starts = {}
    for at, row in ((at, row) for at, row in rows.items() if at[1] is None):
        gain = 0.0 if row.init is None else 1.0
        if row.role == "head" and row.init is not None:
            # Xavier's size of a (vocab, width) matrix is no power of the width
            fans = (a.width + a.vocab) / (smaller.width + smaller.shape.get("vocab", a.vocab))
            gain = scale.ratio(row.init) * math.sqrt(fans)
        # a decay keeps its share of a step
        starts[at] = ParameterConstants(gain, weight_decay=row.place.is_matrix / c.eta)
    words = {n: f"{w}; rates over a base: {scale.words}" for n, w in c.origin["rows"].items()}
    rated = _times(c.with_rows(starts), rows, is_coupled(by), lambda _, size: scale.ratio(size))
    rated = rated.with_rows(_of_vocabulary(rated, rows, many, smaller))
    c = replace(
        rated,
        head_multiplier=scale.ratio(head),
        scores=of_scores,
        origin={**c.origin, "rows": words, "base": written(smaller)},
    )
    return replace(c, condition=_condition(c))


def _of_vocabulary(
    c: Constants,
    rows: Mapping[Address, ParameterRow],
    many: Mapping[Address, ParameterRow],
    base: Base,
) -> dict[Address, ParameterConstants]:
    r"""The (V, d) matrices whose law is another one where V is larger than the width d.

    A row is of a fixed V that a width outgrows. Up to there its rate grows as d to another power,
    ``many``, as under Muon's max(1, rows/columns). With δ the difference of the powers both are

    .. math:: \left(\frac{\min(V, d)}{\min(V_0, d_0)}\right)^\delta
    """
    a, found = c.architecture, dict[Address, ParameterConstants]()
    least = min(a.vocab, a.width) / min(base.shape.get("vocab", a.vocab), base.width)
    for at, row in rows.items():
        if row.rate and (rate := many[at].rate):
            times = least ** float(rate.exponent("d") - row.rate.exponent("d"))
            own = c.parameter(*at, row.place.kind)
            found[at] = replace(own, rate=own.rate * times, weight_decay=own.weight_decay / times)
    return found


def _over(c: Constants, base: Constants) -> Constants:
    """The constants with what they step with over a base's, at the sizes that they have."""
    rows, rates = base.rows, {p.name: [s.rate for s in p.sublayers] for p in base.parts}

    def over(row: ParameterConstants, deep: ParameterConstants) -> ParameterConstants:
        knobs = ((knob, getattr(row, knob), getattr(deep, knob)) for knob in KNOBS[1:])
        return replace(row, **{knob: own / (at_base or 1.0) for knob, own, at_base in knobs})

    relative = c.with_rows({at: over(row, rows[at]) for at, row in c.rows.items()})
    return relative.mapped(
        lambda part, index, s: replace(s, rate=s.rate / rates[part][index]), eta=c.eta / base.eta
    )


def _require_one_start(selection: Selection, experts: int) -> None:
    """Refuse a rule that has another α and β at the base's number of experts."""
    at_base = replace(selection, layer=re.sub(r"/\d+", f"/{experts}", selection.layer or ""))
    one, other = ([(e.alpha, e.beta) for e in Answer(s).rule.entries] for s in (selection, at_base))
    if one != other:
        raise Refusal(
            f"the rule for {selection.placement} under {selection.the_optimizer.name} has another "
            f"alpha and beta at {experts} experts, so that no learning rates relate the two models"
        )


# of embedding, head and final norm, whose parameters step as those of the branches' norms do
_OUTER = {
    "embedding": "token-embedding",
    "token_embedding": "token-embedding",
    "head": "head",
    "head_bias": "head-bias",
    "norm_gain": Role.NORM_GAIN.value,
    "norm_bias": Role.NORM_BIAS.value,
}
_VOCAB = ("embedding", "token_embedding", "head")  # (vocab, width), whichever is the larger


def _in_width(
    c: Constants, selection: Selection, alignment: str, stepped: Steps, tokens: Monomial = ONE
) -> tuple[dict[Address, ParameterRow], Monomial]:
    """The rows in the gauge of the model that is built, and the multiplier of its head.

    ``tokens`` are the rows of embedding and head, as :func:`~deepnet_theory.sizes.width.row_of` has
    them.

    Raises :class:`Refusal` where a tied head needs two rates, or a multiplier that the form leaves
    out.
    """
    a, roles, root = c.architecture, {p.role: p for p in places(selection)}, D**HALF
    rule, token = rule_point(roles, alignment, c.form), roles["token-embedding"]
    head = rule.multipliers[TIED] * root if a.tied_head else rule.multipliers["head"]
    drawn = (token.role, *["head"] * a.tied_head, *{ROUTER} & rule.inits.keys())
    multipliers = {**rule.multipliers, token.role: root, "head": head}
    built = Point(multipliers, {**rule.inits, **dict.fromkeys(drawn, ONE / root)})
    if a.tied_head and (why := require_multipliers(head, c.form)):
        raise Refusal(why)

    def row(place: Place, name: str = "") -> ParameterRow:
        point = rule if name == "token_embedding" else built
        rows = tokens if name in _VOCAB else ONE
        return row_of(place, point, selection, alignment, tokens=rows)

    outer = {name: row(roles[role], name) for name, role in _OUTER.items() if role in roles}
    if (
        a.tied_head
        and stepped(token)
        and (why := require_one_rate(outer["embedding"], outer["head"]))
    ):
        raise Refusal(f"{why}, d the width; give the head a matrix of its own")
    has = {"head": not a.tied_head, "head_bias": a.head_bias}
    has |= dict.fromkeys(("norm_gain", "norm_bias"), selection.the_placement.final_norm)
    outer = {name: own for name, own in outer.items() if has.get(name, True)}
    inside = [row(place) for place in places(selection) if place.sublayer]
    return _addressed(c, inside, outer), head


def _addressed(
    c: Constants, rows: Iterable[ParameterRow], outer: Mapping[str, ParameterRow]
) -> dict[Address, ParameterRow]:
    """The row of each parameter, those of the layers first."""
    inside = {
        (part.name, index, row.place.parameter): row
        for part in c.parts
        for index, s in enumerate(part.sublayers)
        for row in rows
        if (row.place.part, row.place.sublayer) == (part.name, s.kind)
    }
    return inside | {(c.parts[-1].name, None, name): row for name, row in outer.items()}


def _times(
    c: Constants,
    rows: Mapping[Address, ParameterRow],
    coupled: bool,
    factor: Callable[[Place, Monomial], float],
) -> Constants:
    """The constants with each parameter's rate, ε, decay and memory times those of its row."""
    found = dict[Address, ParameterConstants]()
    for at, row in rows.items():
        model = c.parameter(*at, row.place.kind)
        decay = row.coupled_decay if coupled else row.decay  # coupled: added to the gradient
        sizes = zip((*KNOBS[1:], "memory"), (row.rate, row.epsilon, decay, row.memory), strict=True)
        own = {k: getattr(model, k) * factor(row.place, size or ONE) for k, size in sizes}
        if coupled and row.coupled_refused:
            own |= {"weight_decay": 0.0, "refused": row.coupled_refused}
        found[at] = replace(model, **own)
    return c.with_rows(found)


def _require_laws(rows: Iterable[ParameterRow], a: Architecture, stepped: Steps) -> None:
    for row in rows:
        if row.refused and stepped(row.place) and (a.bias or not row.place.starts_at_zero):
            raise Refusal(f"{row.role}: {row.refused}")


def _condition(c: Constants) -> str:
    """What training needs beside the constants, where a base makes the head small too."""
    clipping = "A threshold of the gradients' global norm does not carry over from the base."
    head = c.head_multiplier * c.outer.get("head", c.outer["embedding"]).gain
    if not c.condition or head >= 1:
        return f"{c.condition} {clipping}".lstrip()
    return (
        f"In width theory the head is small, here {head:.3g} of Xavier's size, so that the logits "
        "move as far at every width; a small head kills post-LN unless its bias starts at the "
        f"log-unigram: give it such a bias (--head-bias, start_head_). {c.condition} "
        f"{clipping}"
    )


# ---- for another batch, or another number of steps ----


def in_budget(c: Constants, budget: Budget, stepped: Steps = lambda _: True) -> Constants:
    r"""The constants for another batch B and number of steps T than the tuned run's B₀ and T₀.

    .. math:: \eta\,(B/B_0)^e, \qquad \eta\lambda T = \eta_0\lambda_0 T_0, \qquad
              \frac{1-\beta}{1-\beta_0} = \frac{T_0}{T}

    with e of :func:`~deepnet_theory.sizes.batch.batch_row`, whose number of samples is fixed. The
    steps change the decay and the averages, and not the rate. Raises :class:`InputError` for
    constants of no selection or with a budget already, and :class:`Refusal` where a role that is
    ``stepped`` has no law in the batch.
    """
    selection = c.selected
    if selection is None or c.budget is not None:
        has = "name no selection" if selection is None else "have a batch or a horizon already"
        raise InputError(f"the constants {has}: export them again with the ones you want")
    warning, condition = _told(c, budget)
    c = replace(c, budget=budget, warning=warning, condition=condition)
    base = c.base if budget.batch else None
    scale = base and base.shape and scale_of(base, selection.the_stack, c)
    if budget.times == budget.steps == 1 and not scale:
        return c
    table = tuple(ParameterRow(place, None) for place in places(selection))
    if budget.times != 1 or scale:
        table = role_table(selection, "batch").rows
    _require_laws(table, c.architecture, stepped)
    roles = {row.role: row for row in reversed(table)}
    outer = {name: roles[role] for name, role in _OUTER.items() if role in roles}
    if c.architecture.tied_head:
        del outer["head"]
    rows = {}
    for at, row in _addressed(c, table, outer).items():
        # the gradient of a key bias is 0, packed with a query's or not
        row = roles["query-bias"] if row.place.kind is Role.KEY_BIAS else row
        decay, coupled = ((d or ONE) / B / LONGER for d in (row.decay, row.coupled_decay))
        rows[at] = replace(row, decay=decay, coupled_decay=coupled, memory=ONE / LONGER)

    def factor(place: Place, size: Monomial) -> float:
        seen = share(",".join(base.shape), place) if base and scale else ONE
        samples = budget.times * (scale.ratio(seen) if scale else 1)
        return math.pow(samples, size.exponent("B")) * math.pow(budget.steps, size.exponent("T"))

    return _times(c, rows, is_coupled(selection.the_optimizer), factor)


def with_averages(selection: Selection) -> Monomial:
    """What the rate takes besides, in powers of B, where 1 - β takes its own: 1 under Adam."""
    row = next(row for row in role_table(selection, "batch").rows if row.place.sublayer)
    return (row.memory_rate or ONE) / (row.rate or ONE) if row.memory else ONE


def _told(c: Constants, budget: Budget) -> Iterator[str]:
    """Its warning and its condition: where noise no longer dominates, and where averages end."""
    warning, condition, memory = [c.warning], [c.condition], 1 / budget.steps
    selection, by = c.selected, 1.0
    if budget.times != 1 and selection is not None:
        by = memory ** float(with_averages(selection).exponent("B"))
    if memory != 1 and by == 1:
        condition.append(f"1 - beta of each average is multiplied by {memory:.4g}.")
    if by != 1 and selection is not None:
        condition.append(
            f"The rates are those of betas that stay. Where 1 - beta is multiplied by {memory:.4g} "
            f"too, multiply the rates by another {by:.4g}."
        )
        if not is_coupled(selection.the_optimizer):
            condition.append("Divide the weight decays by it.")
    if memory > 1:
        condition.append(f"A beta of {1 - 1 / memory:.4g} or less leaves (0, 1).")
    if memory > 1 and not budget.horizon:
        condition.append(f"A beta b does from a batch of {budget.base_batch:g}/(1 - b) on.")
    if budget.batch and budget.b_noise and budget.batch > budget.b_noise:
        warning.append(
            f"The batch {budget.batch:g} is above B_noise, {budget.b_noise:g}: the signal of the "
            "gradient dominates there, and the best rate grows by less than this rule's."
        )
    return (" ".join(filter(None, words)) for words in (warning, condition))


# ---- constants that were exported, again: relative to a base, or under another optimizer ----


@dataclass(frozen=True)
class AtSizes(Answer):
    """What the algebra says of an optimizer at the sizes of another one's rule."""

    sizes: DerivedRule | None = None

    @cached_property
    def table(self) -> Table:
        assert self.sizes is not None
        return Table(at_sizes(self.selection, self.sizes))


def stepped_by(
    c: Constants,
    optimizer: str,
    base: BaseLike | None = None,
    stepped: Steps = lambda _: True,
) -> Constants:
    """The constants of a model as an optimizer steps it at the model's own initial sizes.

    ``base`` puts them relative to one, as constants that are relative to one stay; a budget stays
    too. ``stepped`` are the optimizer's roles; what the constants say of others is not for use.
    Raises :class:`InputError` where they are not those of the selection that they name or relative
    to another base, and :class:`Refusal` where the optimizer has no law for them.
    """
    selected, heads, alignment = c.selected, None, FULL
    recorded = c.base if c.outer and selected is not None else None
    if recorded is not None and selected is not None:
        heads, alignment, stack = recorded.heads, recorded.alignment, selected.the_stack
        depth = recorded.depth and [*recorded.depth.values()]
        if base is not None and base_of(base, heads, stack, c, alignment) != recorded:
            raise InputError(
                f"the constants are relative to a base of width {recorded.width} and depth "
                f"{depth}{f', {recorded.shape}' * bool(recorded.shape)}, not to {shown(base)}"
            )
        base = (recorded.width, depth, recorded.shape)
    if optimizer == c.optimizer and (base is None or recorded is not None):
        return c

    def made(answer: Answer, base: BaseLike | None, *stepped: Steps) -> Constants:
        sizes = vars(c.architecture)
        there = partial(constants_of, answer, rule=None, form=c.form, sizes=sizes)
        model = there([p.layers for p in c.parts])
        if base is not None:
            model = on_base(there, model, answer.selection, base, heads, alignment, *stepped)
        return model if c.budget is None else in_budget(model, c.budget, *stepped)

    if selected is not None:
        answer = Answer(selected)
        again = made(answer, base if recorded is not None else None)
        if again.is_alike(c):
            if optimizer != c.optimizer:
                other = replace(answer.selection, optimizer=optimizer, update=None)
                answer = AtSizes(other, sizes=answer.table.rule)
            return made(answer, base, stepped)
    how = "" if base is None else f" with base={base}, or --base-width and --base-depth"
    raise InputError(
        "these constants are not those of a derived rule as it was exported: export them again"
        f"{how}"
    )
