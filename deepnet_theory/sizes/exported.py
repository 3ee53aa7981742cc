"""The constants of a rule at a depth, and relative to a base."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import cast

from deepnet_theory.sizes import laws
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.base import Base, every, relative
from deepnet_theory.sizes.entries import FULL, of_its_own
from deepnet_theory.sizes.equivalence import in_weights
from deepnet_theory.sizes.exponents import Exponents
from deepnet_theory.sizes.rule import Rule as SizedRule
from deepnet_theory.sizes.rule import at_sizes
from deepnet_theory.sizes.table import Table
from deepnet_theory.sizes.width import Place, Scale
from deepnet_theory.spec import __version__
from deepnet_theory.spec.constants import FORMS, Architecture, Constants, Sizes
from deepnet_theory.spec.errors import InputError, Refusal, unknown
from deepnet_theory.spec.expression import evaluate
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.rule import ParameterRule, Row, Rule, RuleEntry
from deepnet_theory.spec.scheme import WIDTH, Scheme, gain_of, not_exportable
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.settings import record
from deepnet_theory.spec.stack import BaseLike, DepthLike, parse_depth
from deepnet_theory.spec.sublayer import MATRICES, Matrix, Role, Sublayer, sublayer


def constants_of(
    answer: Answer,
    depth: DepthLike | None,
    rule: Rule | None,
    form: str,
    sizes: Sizes,
    rows: tuple[Row, ...] = (),
    parameters: tuple[ParameterRule, ...] = (),
) -> Constants:
    """The constants of the rule of an answer, or of one's own in its place.

    ``rows`` are the named rules that it is one of; its own if none are given. ``parameters`` are
    those of a rule of one's own.
    """
    selection = answer.selection
    at = parse_depth(depth, selection.the_stack)
    own = answer.rule if rule is None else rule
    built, used = selection, own
    parameters = answer.parameters if rule is None else parameters
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    if form == "weights":
        built, used, parameters = in_weights(selection, own, parameters)
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
        condition=selection.training_condition if rule is None and answer.trains else "",
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


def constants_of_scheme(
    given: Scheme, selection: Selection, depth: DepthLike | None, form: str, sizes: Sizes
) -> Constants:
    """The constants that a scheme's author published, for a stack with its residual equation.

    Raises :class:`Refusal` for a scheme that constants do not hold.
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
    selection = replace(
        selection, placement=given.named_placement or "", layer=layer, uses=given.uses
    )
    if selection.stack == "decoder":
        given = _in_layers_of_a_decoder(given)
    architecture = record(Architecture, "an architecture", sizes)
    entries: list[RuleEntry] = []
    parameters: list[ParameterRule] = []
    for part, of in zip(selection.the_stack.parts, given.parts, strict=True):
        for s in dict.fromkeys(part.layer):
            gains = {
                m.name: _times(gain_of(of, m.name), _against_xavier(given, m, architecture))
                for m in s.matrices
            }
            entries.append(_entry(given, part.name, s, of.alpha, gains))
            if given.rates or given.epsilon or given.weight_decay:
                parameters += _stepping(given, part.name, s, gains)
    source = f"as published, not derived: {given.source}"
    rule = Rule(given.name, tuple(entries), meaning=source)
    found = constants_of(Answer(selection), depth, rule, form, sizes, parameters=tuple(parameters))
    row = Row(given.name, rule)
    at = parse_depth(depth, selection.the_stack)
    told = {"scheme": given.name, "source": given.source, "row": given.name}
    return replace(found, origin={**found.origin, **told, "rows": {given.name: row.told(**at)}})


def _in_layers_of_a_decoder(given: Scheme) -> Scheme:
    """A scheme of one part with M in place of N."""

    def put(texts: Mapping[str, str]) -> dict[str, str]:
        return {name: re.sub(r"\bN\b", "M", text) for name, text in texts.items()}

    (part,) = given.parts
    alpha = put({"alpha": part.alpha})["alpha"]
    return replace(
        given, parts=(replace(part, name="decoder", alpha=alpha, gains=put(part.gains)),),
        rates=put(given.rates), epsilon=put(given.epsilon), weight_decay=put(given.weight_decay),
    )  # fmt: skip


def _entry(
    given: Scheme, part: str, s: Sublayer, alpha: str, gains: Mapping[str, str]
) -> RuleEntry:
    """One β where the scaled matrices have one gain and the others 1; else all of them."""
    betas = {gains[m.name] for m in s.scaled}
    rate = given.rate_of(Role.SCALED)
    if len(betas) == 1 and all(gains[m.name] == "1" for m in s.unscaled):
        return RuleEntry(part, s.name, alpha, betas.pop(), rate)
    return RuleEntry(part, s.name, alpha, "1", rate, gains=tuple(gains.items()))


def _stepping(
    given: Scheme, part: str, s: Sublayer, gains: Mapping[str, str]
) -> Iterator[ParameterRule]:
    """What the scheme multiplies learning rate, ε and decay by, of every kind of parameter."""
    norms = (("norm_gain", Role.NORM_GAIN, "1"), ("norm_bias", Role.NORM_BIAS, "0"))
    kinds = [(p.name, p.role, gains.get(p.name, "0")) for p in s.parameters]
    for name, role, gain in (*kinds, *norms):
        decay = "1" if role in MATRICES else "0"
        yield ParameterRule(
            part, s.name, name, role, gain, given.rates.get(role, "1"),
            given.epsilon.get(role, "1"), given.weight_decay.get(role, decay),
        )  # fmt: skip


def _against_xavier(given: Scheme, m: Matrix, a: Architecture) -> float:
    if not given.std:
        return 1.0
    fans = {"d": a.width, "hidden": a.hidden_width, "key": a.kv_width, "value": a.kv_width}
    fan_in, fan_out = fans[m.fan_in], fans.get(m.name, fans[m.fan_out])
    return evaluate(WIDTH.parse(given.std), d=a.width) / math.sqrt(2 / (fan_in + fan_out))


def _times(text: str, factor: float) -> str:
    if factor == 1:
        return text
    return repr(factor) if text == "1" else f"({text})*{factor!r}"


def _verdict(answer: Answer) -> str:
    verdict = getattr(answer, "verdict", None)
    return "computed; derive proves it" if verdict is None else str(verdict)


# ---- relative to a base ----


def on_base(
    at: Callable[[DepthLike], Constants],
    c: Constants,
    selection: Selection,
    base: BaseLike,
    heads: int | None = None,
    alignment: str = FULL,
    stepped: Callable[[Place], bool] = every,
) -> Constants:
    """The constants c relative to a base; ``at`` makes them at another depth.

    ``stepped`` are the roles that need a law, all but another optimizer's.
    """
    of = Base.parse(base, heads, selection.the_stack, c.architecture)
    scale, shallow = Scale(c.architecture.width, of.width), None
    if of.depth is not None:
        depth = dict(zip(of.depth, (p.layers for p in c.parts), strict=True))
        scale = replace(scale, depth=tuple(depth.items()), base_depth=tuple(of.depth.items()))
        shallow = at(of.depth)
    found = relative(c, selection, scale, of.heads, alignment, shallow, stepped)
    rows = {
        name: f"{told}; here over a base: {scale.words}" for name, told in c.origin["rows"].items()
    }
    origin = {**c.origin, "rows": rows, "base": {**asdict(of), "alignment": alignment}}
    return replace(found, origin=origin, condition=_condition(found))


# ---- constants that were exported, again: relative to a base, or under another optimizer ----


@dataclass(frozen=True)
class AtSizes(Answer):
    """What the algebra says of an optimizer at the sizes of another one's rule."""

    sizes: SizedRule | None = None

    @cached_property
    def table(self) -> Table:
        assert self.sizes is not None
        return Table(at_sizes(self.selection, self.sizes))


def stepped_by(
    c: Constants,
    optimizer: str,
    base: BaseLike | None = None,
    stepped: Callable[[Place], bool] = every,
) -> Constants:
    """The constants of a model as an optimizer steps it at the model's own initial sizes.

    ``base`` puts them relative to one, as constants that are relative to one stay. ``stepped`` are
    the optimizer's roles; what the constants say of others is not for use. Raises
    :class:`InputError` where they are not those of the selection that they name, and
    :class:`Refusal` where the optimizer has no law for them.
    """
    select, own = c.origin.get("select"), c.origin.get("base") if c.outer else None
    heads, alignment = None, FULL
    if isinstance(own, dict):
        base = (own["width"], own["depth"] and [*own["depth"].values()])
        heads, alignment = own["heads"], own["alignment"]
    depth = [p.layers for p in c.parts]

    def made(answer: Answer, of: Callable[[Place], bool]) -> Constants:
        def at(depth: DepthLike) -> Constants:
            return constants_of(answer, depth, None, c.form, cast(Sizes, vars(c.architecture)))

        if base is None:
            return at(depth)
        return on_base(at, at(depth), answer.selection, base, heads, alignment, of)

    if isinstance(select, dict):
        regime = tuple(map(tuple, select.get("regime", ())))
        answer = Answer(Selection(**{**select, "regime": regime}))
        plain = constants_of(answer, depth, None, c.form, cast(Sizes, vars(c.architecture)))
        again = made(answer, every) if isinstance(own, dict) else plain
        if [p.sublayers for p in again.parts] == [p.sublayers for p in c.parts]:
            if optimizer != c.optimizer:
                other = replace(answer.selection, optimizer=optimizer, update=None, regime=())
                answer = AtSizes(other, sizes=answer.table.rule)
            return made(answer, stepped)
    how = "" if base is None else f" with base={base}, or --base-width and --base-depth"
    raise InputError(
        "these constants are not those of a derived rule as it was exported: export them again"
        f"{how}"
    )


def steps_of_a_packed_matrix(
    optimizer: Optimizer, kind: str, gains: Mapping[str, float], rows: Sequence[int], columns: int
) -> dict[str, float]:
    """How far each matrix of a sublayer is stepped where they are packed, over a step of its own.

    ``gains`` has their gains and ``rows`` their rows, in one order. A gradient is as large as the
    branch's response to its matrix.
    """
    own = sublayer(kind)
    sizes = {m.name: gains.get(m.name, 1.0) for m in own.matrices}
    moved = laws.branch(own).moved
    gradients = [moved[name].size.at(**sizes) for name in gains]
    steps = of_its_own(optimizer, rows, columns, gradients, [*gains.values()])
    return dict(zip(gains, steps, strict=True))


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
