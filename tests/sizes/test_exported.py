"""Constants of a rule and of a scheme, and relative to a base: the numbers of the table."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.placement import PLACEMENTS
from deepnet_theory.definitions.rule import KNOBS
from deepnet_theory.definitions.scheme import SCHEMES, not_exportable
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, SUBLAYERS
from deepnet_theory.sizes.exported import stepped_by
from deepnet_theory.sizes.monomial import ONE
from deepnet_theory.sizes.width import Scale, role_table
from deepnet_theory.sizes.width import product as product_of_rows

pytestmark = pytest.mark.filterwarnings(
    "ignore::deepnet_theory.definitions.outcome.UnstableWarning"
)
SIZES = {"width": 96, "heads": 6, "vocab": 32}  # heads of width 16
OUTER = {"token-embedding": "token_embedding", "head": "head", "final-norm-gain": "norm_gain"}
COUPLED = ("adam", "sgd", "lars", "momentum")
MIXTURE = {"layer": "attention,ffn-swiglu@4/16", "placement": "pre-ln"}
WIDER = (
    {"optimizer": "adam", "placement": "pre-ln"},
    {"optimizer": "lamb", "closure": "learning-rate"},
    {"optimizer": "muon", "stack": "encoder-decoder"},
    {"optimizer": "sgd", "layer": "attention,ffn:swiglu", "norm": "rms"},
    {"optimizer": "sgd", "placement": "res-post-ln"},  # the epsilon of a norm falls
    {"update": "-eta*sign(g)*abs(g)**(1/3)"},
    *({"optimizer": "adamw", "placement": name} for name in PLACEMENTS),
)
# a base that has half of a shape, and half of the experts in a noisy batch
SHAPED = (
    ("full", {"experts": 8}, {}),
    ("full", {"top-k": 2}, {}),
    ("full", {"kv-heads": 1}, {}),
    ("full", {"vocab": 16}, {}),
    ("full", {"ffn": 192}, {}),
    ("none", {"ffn": 192}, {}),
    ("full", {"experts": 8}, {"batch": 64, "base_batch": 64}),
)


@pytest.mark.parametrize(
    ("select", "form", "alignment", "shapes", "run"),
    [
        *((select, "forward", "full", {}, {}) for select in WIDER),
        *((select, "weights", "none", {}, {}) for select in WIDER),
        *(
            ({"optimizer": name, **MIXTURE}, "forward", *shaped)
            for name in ("sgd", "lamb", "muon", "adamw")
            for shaped in SHAPED
            if name != "muon" or "vocab" not in shaped[1]  # by both sizes: test_vocabulary.py
        ),
    ],
)
def test_each_number_over_a_base_is_that_of_the_table(select, form, alignment, shapes, run):
    """The table's own gauge is that of the constants, but for the builder's embedding."""
    selection = Selection(**select)
    deep, base = (dict.fromkeys(selection.the_stack.depths, layers) for layers in (6, 2))
    given = {"form": form, **({"kv_heads": 2} if shapes else {}), **SIZES}
    over = {"base": (96, base, shapes) if shapes else (32, base), "alignment": alignment, **run}
    try:
        own, shallow = (dt.export(selection, depth, **given) for depth in (deep, base))
    except Refusal as refused:  # in the forward pass alone
        assert form == "weights", refused
        return
    c = dt.export(selection, deep, **given, **over)
    table = role_table(selection, "both", alignment, form)
    across = ",".join((*shapes, *["batch"] * bool(run)))
    shaped = role_table(selection, across, alignment, form, built=True).rows if shapes else ()
    times = {row.place.known: row for row in shaped}
    pairs = ((row, times.get(row.place.known)) for row in table.rows)
    scale = Scale({"d": (96, over["base"][0]), **dict.fromkeys(deep, (6, 2))},
                  dict.fromkeys(shapes, 2.0))  # fmt: skip
    decay = "coupled_decay" if selection.optimizer in COUPLED else "decay"
    compared = 0
    for row in (product_of_rows(row, other) if other else row for row, other in pairs):
        place, stepped = row.place, {"rate": row.rate, "epsilon": row.epsilon or ONE}
        stepped["weight_decay"] = getattr(row, decay) if place.is_matrix else None
        if place.sublayer:
            part = next(p for p in c.parts if p.name == place.part)
            index = [s.kind for s in part.sublayers].index(place.sublayer)
            number = part.sublayers[index].parameters[place.parameter]
            if row.init is not None and place.kind in MATRICES and not shapes:
                at_base = shallow.parameter(part.name, index, place.parameter, place.kind).gain
                xavier = row.init * place.shape[0] ** Fraction(1, 2)
                assert number.gain / at_base == pytest.approx(scale.ratio(xavier)), row.role
        elif row.role in OUTER:
            number = c.outer[OUTER[row.role]]
        else:
            continue
        for knob, size in stepped.items():
            found = getattr(number, knob) * (c.eta if knob == "rate" else 1)
            assert found == pytest.approx(scale.ratio(size) if size else 0), (row.role, knob)
            compared += 1
    assert compared > 40
    assert c.head_multiplier == pytest.approx(scale.ratio(table.row("head").multiplier))
    for parts in zip(c.parts, own.parts, shallow.parts, strict=True):
        for here, deep, base in zip(*(part.sublayers for part in parts), strict=True):
            kept = [(s.alpha, s.beta, s.norm_epsilon) for s in (here, deep)]
            assert kept[0] == kept[1] and here.rate == pytest.approx(deep.rate / base.rate)


def numbers(c):
    """Constants without the origin of their numbers."""
    return replace(c, origin={}, condition="")


STUCK = {"optimizer": None, "update": "-eta*norm(theta)*sign(g)", "base": 32}
UNLIKE = {"layer": "attention,ffn@2/8,ffn-swiglu@2/16"}


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"base": 192}, InputError, "base width 192 is not from 1 to the width, 96"),
        ({"base": (32, 7)}, InputError, "base depth N 7 is not from 1 to the depth N, 6"),
        ({"base": 40}, InputError, "heads of width 16 do not divide the base width 40"),
        ({"base": 40, "base_heads": 3}, InputError, "3 heads do not divide the base width 40"),
        ({"base": "wide"}, InputError, "the base 'wide' is none"),
        ({"base": (1, 2, 3)}, InputError, "the base (1, 2, 3) is none"),
        ({"base": True}, InputError, "the base True is none"),
        ({"base": (32, "x")}, InputError, "the depth 'x' is not valid"),
        ({"base_heads": 2}, InputError, "base_heads was given without a base width"),
        ({"base": 32, "alignment": "half"}, InputError, "unknown alignment 'half'"),
        ({"base": 16, "kv_heads": 3}, InputError, "3 key and value heads of 6 are no whole number"),
        ({"base": (32, 6, {"width": 4})}, InputError, "'width'; valid are: ffn, vocab, kv-heads"),
        ({"base": (96, 6, {"experts": 4}), **UNLIKE}, InputError, "unknown base shape 'experts'"),
        ({"base_shape": "vocab"}, InputError, "the base shape vocab= is none, as vocab=32 is"),
        ({"base_shape": "vocab=0"}, InputError, "the base shape vocab=0 is none"),
        ({"base": 48, "tied_head": True, "form": "weights"}, Refusal, "multiplier of d**(-1/2)"),
        ({"base": 48, "base_heads": 6, "form": "weights"}, Refusal, "the scores need a multiplier"),
        (STUCK, Refusal, "never leaves it"),
        (
            {"optimizer": "sgd", "layer": MIXTURE["layer"], "base": (96, 6, {"experts": 8})},
            Refusal,
            "another alpha and beta at 8 experts",
        ),
    ],
    ids=str,
)
def test_what_is_no_base_or_has_no_law_over_it_is_one_sentence(given, error, said):
    with pytest.raises(error) as caught:
        dt.export(depth=6, **{"optimizer": "adamw", **SIZES, **given})
    assert said in str(caught.value) and "\n" not in str(caught.value)
    # a model without biases leaves out the one that never moves
    assert dt.export(depth=6, bias=False, **STUCK, **SIZES).outer["head"].rate


ALONE = [name for name, s in SCHEMES.items() if len(s.parts) == 1 and not not_exportable(s)]


@pytest.mark.parametrize("name", ALONE)
def test_a_scheme_is_exported_as_it_is_published_and_alike_for_a_decoder(name):
    given = SCHEMES[name]
    (part,) = given.parts
    c = dt.export(depth=12, scheme=name, width=64, heads=4)
    for s in c.parts[0].sublayers:
        assert s.alpha == pytest.approx(given.value(part.alpha, N=12))
        if not given.std:
            for m in SUBLAYERS[s.kind].matrices:
                assert s.gain(m.name) == pytest.approx(given.value(part.gain(m), N=12))
                own = c.parameter(part.part, c.parts[0].sublayers.index(s), m.name, m.role)
                assert own.rate == pytest.approx(given.value(given.rate_of(m.role), N=12))
    same = Selection(given.optimizer, norm=given.norm, stack="decoder")
    decoder = dt.export(same, 12, scheme=name, width=64, heads=4)
    assert numbers(c).parts[0].sublayers == numbers(decoder).parts[0].sublayers


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


def test_a_router_over_a_base_steps_from_the_size_that_it_is_built_with():
    """Under LAMB a matrix (d, 1) of entries d^(-1/2) takes d^(-1/2), and 1 at entries of 1/d."""
    given = {"layer": "attention,ffn-swiglu@2/8", "width": 256, "heads": 4, "vocab": 1000}
    constants = dt.export("lamb", depth=8, base=(64, 8), **given)
    (ffn,) = (s for s in constants.parts[0].sublayers if s.kind == "ffn-swiglu@2/8")
    assert ffn.parameters["router"].rate == pytest.approx(0.5)


def test_shapes_of_a_base_stay_under_another_optimizer():
    shaped = {"base": (96, 6, {"experts": 8}), **MIXTURE, **SIZES}
    adamw, lamb = (dt.export(optimizer, 6, **shaped) for optimizer in ("adamw", "lamb"))
    again = stepped_by(adamw, "lamb")
    assert again.base == adamw.base
    for (at, row), knob in product(again.rows.items(), KNOBS[1:]):
        assert getattr(row, knob) == pytest.approx(getattr(lamb.rows[at], knob))
