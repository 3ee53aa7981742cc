"""Constants of a rule and of a scheme, and relative to a base: the numbers of the table."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.placement import placements
from deepnet_theory.definitions.rule import KNOBS
from deepnet_theory.definitions.scheme import not_exportable, schemes
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, sublayers
from deepnet_theory.sizes.exported import stepped_by
from deepnet_theory.sizes.monomial import ONE
from deepnet_theory.sizes.width import Scale, role_table

pytestmark = pytest.mark.filterwarnings(
    "ignore::deepnet_theory.definitions.outcome.UnstableWarning"
)
SIZES = {"width": 96, "heads": 6, "vocab": 32}  # heads of width 16
OUTER = {"token-embedding": "token_embedding", "head": "head", "final-norm-gain": "norm_gain"}
COUPLED = ("adam", "sgd", "lars", "momentum")


@pytest.mark.parametrize(("form", "alignment"), [("forward", "full"), ("weights", "none")])
@pytest.mark.parametrize(
    "select",
    [
        {"optimizer": "adamw"},
        {"optimizer": "adam", "placement": "pre-ln"},
        {"optimizer": "lamb", "closure": "learning-rate"},
        {"optimizer": "muon", "stack": "encoder-decoder"},
        {"optimizer": "sgd", "layer": "attention,ffn:swiglu", "norm": "rms"},
        {"update": "-eta*sign(g)*abs(g)**(1/3)"},
    ],
    ids=lambda select: "-".join(select.values()),
)
def test_each_number_is_that_of_the_table(select, form, alignment):
    """The table's own gauge is that of the constants, but for the builder's embedding."""
    selection = Selection(**select)
    depth = dict.fromkeys(selection.the_stack.depths, 6)
    base = dict.fromkeys(depth, 2)
    c = dt.export(selection, depth, base=(32, base), form=form, alignment=alignment, **SIZES)
    shallow = dt.export(selection, base, form=form, **SIZES)
    table = role_table(selection, "both", alignment, form)
    scale = Scale({"d": (96, 32), **dict.fromkeys(depth, (6, 2))})
    compared = 0
    for row in table.rows:
        place = row.place
        if place.sublayer:
            own, index = next(
                (s.parameters[place.parameter], index)
                for p in c.parts
                for index, s in enumerate(p.sublayers)
                if (p.name, s.kind) == (place.part, place.sublayer)
            )
        elif row.role in OUTER:
            own = c.outer[OUTER[row.role]]
        else:
            continue
        coupled = selection.optimizer in COUPLED
        wanted = {
            "rate": row.rate,
            "epsilon": row.epsilon or ONE,
            "weight_decay": row.coupled_decay if coupled else row.decay,
        }
        if row.init is not None and place.sublayer and place.kind in MATRICES:
            wanted["gain"] = row.init * place.shape[0] ** Fraction(1, 2)  # on Xavier's size
        for knob, size in wanted.items():
            if size is None:  # a vector, or a decay that is refused
                assert getattr(own, knob) == 0
                continue
            number = getattr(own, knob) * (c.eta if knob == "rate" else 1)
            if knob == "gain":  # the base has the rule's own
                number /= shallow.parameter(place.part, index, place.parameter, place.kind).gain
            assert number == pytest.approx(scale.ratio(size)), (row.role, knob)
            compared += 1
    assert compared > 40
    assert c.head_multiplier == pytest.approx(scale.ratio(table.row("head").multiplier))


def numbers(c):
    """Constants without the origin of their numbers."""
    return replace(c, origin={}, condition="")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"base": 192}, "base width 192 is not from 1 to the width, 96"),
        ({"base": (32, 7)}, "base depth N 7 is not from 1 to the depth N, 6"),
        ({"base": 40}, "heads of width 16 do not divide the base width 40"),
        ({"base": 40, "base_heads": 3}, "3 heads do not divide the base width 40"),
        ({"base": "wide"}, "the base 'wide' is none"),
        ({"base": (1, 2, 3)}, "the base (1, 2, 3) is none"),
        ({"base": True}, "the base True is none"),
        ({"base": (32, "x")}, "the depth 'x' is not valid"),
        ({"base_heads": 2}, "base_heads was given without a base width"),
        ({"base": 32, "alignment": "half"}, "unknown alignment 'half'"),
        ({"base": 16, "kv_heads": 3}, "3 key and value heads of 6 are no whole number"),
        ({"base": (32, 6, {"width": 4})}, "unknown base shape 'width'; valid are: ffn, vocab, kv-"),
        (
            {"base": (96, 6, {"experts": 4}), "layer": "attention,ffn@2/8,ffn-swiglu@2/16"},
            "unknown base shape 'experts'",
        ),
        ({"base_shape": "vocab"}, "the base shape vocab= is none, as vocab=32 is"),
        ({"base_shape": "vocab=0"}, "the base shape vocab=0 is none"),
    ],
    ids=str,
)
def test_what_is_no_base_is_one_sentence(given, said):
    with pytest.raises(InputError) as caught:
        dt.export("adamw", 6, **SIZES, **given)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("optimizer", "given", "said"),
    [
        ("adamw", {"tied_head": True, "form": "weights"}, "a multiplier of d**(-1/2)"),
        ("adamw", {"base_heads": 6, "form": "weights"}, "the scores need a multiplier"),
    ],
)
def test_what_has_no_law_is_refused(optimizer, given, said):
    with pytest.raises(Refusal) as caught:
        dt.export(optimizer, 6, **{"base": 48, **SIZES, **given})
    assert said in str(caught.value)


def test_a_bias_that_never_moves_is_refused_and_left_out_where_there_is_none():
    update = Selection(update="-eta*norm(theta)*sign(g)")
    with pytest.raises(Refusal, match=r"query-bias: .* never leaves it"):
        dt.export(update, 6, base=32, **SIZES)
    assert dt.export(update, 6, base=32, bias=False, **SIZES).outer["head"].rate


def exportable():
    return [s.name for s in schemes().values() if len(s.parts) == 1 and not not_exportable(s)]


@pytest.mark.parametrize("name", exportable())
def test_a_scheme_is_exported_as_it_is_published_and_alike_for_a_decoder(name):
    given = schemes()[name]
    (part,) = given.parts
    c = dt.export(depth=12, scheme=name, width=64, heads=4)
    for s in c.parts[0].sublayers:
        assert s.alpha == pytest.approx(given.value(part.alpha, N=12))
        if not given.std:
            for m in sublayers()[s.kind].matrices:
                assert s.gain(m.name) == pytest.approx(given.value(part.gain(m), N=12))
                own = c.parameter(part.part, c.parts[0].sublayers.index(s), m.name, m.role)
                assert own.rate == pytest.approx(given.value(given.rate_of(m.role), N=12))
    same = Selection(given.optimizer, norm=given.norm, stack="decoder")
    decoder = dt.export(same, 12, scheme=name, width=64, heads=4)
    pairs = zip(numbers(c).parts[0].sublayers, numbers(decoder).parts[0].sublayers, strict=True)
    assert all(one == other for one, other in pairs)


def test_exported_constants_are_found_again():
    plain, based = (dt.export("adamw", 6, **SIZES, **base) for base in ({}, {"base": 48}))
    assert numbers(stepped_by(plain, "adamw", 48)) == numbers(based)
    assert numbers(stepped_by(plain, "lamb", 48)) == numbers(stepped_by(based, "lamb"))

    def times(alpha):
        return plain.mapped(lambda *at: replace(at[-1], alpha=alpha * at[-1].alpha))

    assert numbers(stepped_by(times(1 + 1e-15), "adamw", 48)) == numbers(based)
    decays = {at: replace(row, weight_decay=2 * row.weight_decay) for at, row in plain.rows.items()}
    for edited in (times(2), plain.with_rows(decays)):
        with pytest.raises(InputError, match="export them again with base=48"):
            stepped_by(edited, "adamw", 48)


@pytest.mark.parametrize("form", ["forward", "weights"])
@pytest.mark.parametrize(
    "select",
    [
        {"optimizer": "adamw", "placement": "pre-ln"},  # kappa is a knob
        {"optimizer": "lamb", "closure": "learning-rate"},  # and here the learning rate
        {"optimizer": "sgd", "placement": "res-post-ln"},  # the epsilon of a norm falls
        {"optimizer": "adamw", "stack": "encoder-decoder"},
        {"optimizer": "adamw", "layer": "attention,ffn:swiglu"},
        *({"optimizer": "adamw", "placement": name} for name in placements()),
    ],
    ids=lambda select: "-".join(select.values()),
)
def test_over_a_base_sizes_are_the_rule_s_own_and_what_steps_is_relative(select, form):
    selection = Selection(**select)
    there, here = (dict.fromkeys(selection.the_stack.depths, layers) for layers in (2, 7))
    try:
        deep, base = (dt.export(selection, n, form=form, **SIZES).numbers for n in (here, there))
    except Refusal as refused:  # in the forward pass alone
        assert form == "weights", refused
        return
    over, itself = (
        dt.export(selection, n, base=(96, there), form=form, **SIZES).numbers for n in (here, there)
    )
    assert len(base) > 20
    for where, at_base in base.items():
        number = over[where]
        if {"alpha", "beta", "gain", "norm_epsilon"} & {*where}:  # a model has its own, at any N
            assert (number, itself[where]) == (deep[where], at_base), where
            continue
        assert number == pytest.approx(deep[where] / at_base if at_base else 0), where
        assert itself[where] == pytest.approx(1 if at_base else 0), where


def test_a_router_over_a_base_steps_from_the_size_that_it_is_built_with():
    """Under LAMB a matrix (d, 1) of entries d^(-1/2) takes d^(-1/2), and 1 at entries of 1/d."""
    given = {"layer": "attention,ffn-swiglu@2/8", "width": 256, "heads": 4, "vocab": 1000}
    constants = dt.export("lamb", depth=8, base=(64, 8), **given)
    (ffn,) = (s for s in constants.parts[0].sublayers if s.kind == "ffn-swiglu@2/8")
    assert ffn.parameters["router"].rate == pytest.approx(0.5)


SHAPED = {"layer": "attention,ffn-swiglu@4/16", "placement": "pre-ln", "kv_heads": 2}


def in_shape(optimizer, alignment="full", **shape):
    """The model over a base that differs in a shape, and over one that differs in nothing."""
    given = {**SHAPED, **SIZES, "alignment": alignment}
    return [dt.export(optimizer, 6, base=(96, 6, s), **given) for s in (shape, {"vocab": 32})]


def ratios(one, other):
    """Of what steps otherwise, by role: the ratio of rate, ε and decay."""
    found = {}
    for place, row in stepped_in(one).items():
        pairs = [[getattr(r, k) for k in KNOBS[1:]] for r in (row, stepped_in(other)[place])]
        found[place] = tuple(a / b if b else 1.0 for a, b in zip(*pairs, strict=True))
    return {place: found[place] for place in found if found[place] != pytest.approx((1, 1, 1))}


def stepped_in(c):
    return {name: row for (*_, name), row in c.rows.items()}


@pytest.mark.parametrize("optimizer", ["sgd", "lamb", "muon"])
@pytest.mark.parametrize(
    ("shape", "alignment"),  # hidden units start as they are built, which is alignment none
    [("experts", "full"), ("top-k", "full"), ("kv-heads", "full"), ("vocab", "full"),
     ("ffn", "none")],
)  # fmt: skip
def test_twice_a_shape_changes_what_the_table_says_and_nothing_else(optimizer, shape, alignment):
    own = {"experts": 16, "top-k": 4, "kv-heads": 2, "vocab": 32, "ffn": 384}[shape]
    found = ratios(*in_shape(optimizer, alignment, **{shape: own // 2}))
    select = Selection(optimizer=optimizer, layer=SHAPED["layer"], placement="pre-ln")
    scale, asked = Scale({"d": (1, 1)}, {shape: 2.0}), {}
    for row in role_table(select, shape, alignment).rows:
        decay = row.coupled_decay if optimizer in COUPLED else row.decay
        sizes = row.rate, row.epsilon, decay if row.place.is_matrix else None
        asked[row.place.parameter] = tuple(scale.ratio(size or ONE) for size in sizes)
    asked |= {"embedding": asked["token_embedding"]} if shape == "vocab" else {}
    changed = {name: by for name, by in asked.items() if by != (1, 1, 1)}
    changed.pop("tied_head", None), changed.pop("head_bias", None)  # which this model has not
    assert found.keys() == changed.keys()
    assert all(found[name] == pytest.approx(changed[name]) for name in found)


def test_a_base_of_the_same_shapes_changes_nothing():
    one, plain = in_shape("adamw", **{"experts": 16, "top-k": 4, "kv-heads": 2, "ffn": 384})
    assert numbers(one) == numbers(plain)
    assert all(row.rate == row.epsilon == 1 for row in stepped_in(one).values())


@pytest.mark.parametrize(("optimizer", "power"), [("adamw", 0.5), ("sgd", 1.0)])
def test_in_a_noisy_batch_experts_step_for_their_share_of_the_tokens(optimizer, power):
    """A quarter of the share, at the same batch: its root besides under Adam, itself under SGD."""
    given = {**SHAPED, **SIZES}
    bases = ({"experts": 8, "top-k": 8}, {"experts": 16, "top-k": 4})
    still, noisy = (
        ratios(*(dt.export(optimizer, 6, base=(96, 6, s), **given, **run) for s in bases))
        for run in ({}, {"batch": 64, "base_batch": 64})
    )
    for name in ("up", "down", "router"):
        rate, _, decay = still.get(name, (1.0, 1.0, 1.0))
        assert noisy[name][0] == pytest.approx(rate * 0.25**power)
        assert noisy[name][2] == pytest.approx(decay * 0.25**-power)


def test_experts_that_the_rule_starts_at_another_size_are_refused():
    with pytest.raises(Refusal, match="another alpha and beta at 8 experts"):
        dt.export("sgd", 6, base=(96, 6, {"experts": 8}), layer=SHAPED["layer"], **SIZES)


def test_shapes_of_a_base_stay_under_another_optimizer():
    c, _ = in_shape("adamw", experts=8)
    again = stepped_by(c, "lamb")
    assert again.base == c.base and ratios(again, in_shape("lamb", experts=8)[0]) == {}
