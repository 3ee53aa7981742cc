"""Layers that are used several times: their rule, what it rests on, and planted errors."""

import re
from dataclasses import replace
from itertools import product

import pytest
import sympy as sp

from deepnet_theory.sizes.monomial import Monomial, parse
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import Table, table
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.measured import measured

N = Monomial.of("N")


@pytest.mark.parametrize(
    ("where", "uses"),
    [*product(["post-ln", "pre-ln"], ["N", "N/6", "4"]), ("layer-scale", "N/6")],
)
def test_the_rule_of_shared_layers_is_proved(where, uses):
    found = derive(Selection("sgd", placement=where, uses=uses))
    assert found.verdict is Verdict.PROVED
    assert {"shared-response-encoder", "shared-update-encoder"} <= {s.name for s in found.steps}


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb", "adafactor"])
@pytest.mark.parametrize("where", placements())
@pytest.mark.parametrize("method", ["probe", "lemma", "moments"])
def test_it_is_proved_by_every_route(optimizer, where, method):
    for uses, name in (("N", "encoder"), ("N/6", "decoder"), ("3", "encoder-decoder")):
        for closure in (None, "complete"):
            of = Selection(optimizer, placement=where, method=method, uses=uses, stack=name,
                           closure=closure)  # fmt: skip
            try:
                found = derive(of)
            except Refusal:  # as of layers of their own
                with pytest.raises(Refusal):
                    derive(replace(of, uses="1"))
                continue
            assert found.verdict is Verdict.PROVED


def entry(optimizer, uses, **more):
    of = table(Selection(optimizer, uses=uses, **more))
    row, value = of.sublayers[0], next(p for p in of.parameters if p.parameter == "value")
    return row, value


def test_sgd_is_stepped_by_the_sum_of_the_uses_and_a_sign_is_not():
    """S·n^p increments are one η: n multiplies SGD's gradient, update and increment."""
    alone, once = entry("sgd", "1", placement="pre-ln")
    shared, summed = entry("sgd", "N", placement="pre-ln")
    # S*beta^2 = 1 becomes S*n*beta^2 = 1
    assert shared.beta**2 == alone.beta**2 / N
    assert summed.gradient / shared.beta == N * once.gradient / alone.beta
    assert (alone.rho.exponent("N"), shared.rho.exponent("N")) == (0, 1)
    signs = [entry("adam", uses, placement="pre-ln") for uses in ("1", "N")]
    (alone, once), (shared, summed) = signs
    assert (shared.alpha, shared.beta, shared.rho) == (alone.alpha, alone.beta, alone.rho)
    assert summed.epsilon == N * once.epsilon  # it stands beside a gradient n times as large


def test_branches_of_one_layer_add_alike_so_that_the_premise_is_another():
    """1/sqrt(N) keeps N distinct branches near the identity, and none that are one."""
    alone, _ = entry("sgd", "1", closure="unit-init")
    shared, _ = entry("sgd", "N", closure="unit-init")
    assert alone.weight == parse("(2*N)**(-1/2)")
    # n loops of L = N/n layers of two sublayers: 1/(n*sqrt(2*L))
    assert shared.weight == parse("(2*N**2)**(-1/2)")
    looped, _ = entry("sgd", "N/6", closure="unit-init")
    assert looped.weight == ONE / (parse("N/6") * parse("12**(1/2)"))
    assert alone.independent == shared.independent == looped.independent == ONE
    update = "-eta*g/norm(g)*norm(theta)**3"  # degree 3 in theta: the branch falls too slowly
    kept = Selection(update=update, placement="pre-ln")
    assert solve_rule(kept)
    with pytest.raises(Refusal, match=r"makes S\*n_u\*r\^2 grow as N\^"):
        solve_rule(replace(kept, uses="N"))


ONE = Monomial()


@pytest.mark.parametrize(
    ("uses", "layers", "distinct"),
    [("1", 7, 7), ("N", 7, 1), ("N/6", 12, 6), ("4", 12, 3), ("M/2", 4, 2), ("4", 10, None),
     ("N/6", 10, None), ("8", 4, None)],
)  # fmt: skip
def test_as_many_layers_are_distinct(uses, layers, distinct):
    (part,) = stack("encoder", uses=uses).parts
    if distinct is None:
        told = f"{layers} layers of the encoder cannot be layers that are used {uses} times"
        with pytest.raises(InputError, match=re.escape(told)):
            part.distinct(layers)
    else:
        assert part.distinct(layers) == distinct


@pytest.mark.parametrize("uses", ["0", "", "2*N", "N**2", "1.5", "-1", "N/0", "sqrt(N)", 3])
def test_what_is_no_number_of_uses_is_refused(uses):
    with pytest.raises(InputError, match="uses"):
        Selection("sgd", uses=uses)


def test_directions_that_are_both_alike_and_independent_have_no_law():
    of = Selection("adam", stack="encoder-decoder", uses="N", amplification="independent")
    with pytest.raises(Refusal, match="a law of both is missing"):
        solve_rule(of)


# ---- planted errors ----


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("shared-response-encoder", lambda s, n: {"rhs": s.rhs * n}),
        ("shared-response-encoder", lambda s, n: {"rhs": s.rhs / n}),
        ("shared-update-encoder", lambda s, n: {"rhs": s.rhs / n}),
        ("shared-update-encoder", lambda s, n: {"rhs": s.rhs * sp.sqrt(n)}),
        ("sum-encoder", lambda s, n: {"rhs": s.rhs / sp.Symbol("N", positive=True)}),
        ("self-consistency-2-encoder", lambda s, n: {"lhs": s.lhs / sp.Symbol("N", positive=True)}),
    ],
)
def test_a_step_with_other_powers_of_the_uses_is_refuted(name, plant):
    step = derive(Selection("sgd", uses="N")).step(name)
    assert step.check() is Verdict.PROVED
    assert replace(step, **plant(step, sp.Symbol("n_u", positive=True))).check() is Verdict.REFUTED


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("field", "named"),
    [("gradient", "gradient of value"), ("update", "update of value"), ("share", "share of value"),
     ("epsilon", "epsilon of value"), ("decay", "weight decay of value")],
)  # fmt: skip
@pytest.mark.parametrize("power", [-1, 1])
def test_an_entry_that_forgets_the_uses_or_counts_them_twice_is_refuted(
    optimizer, field, named, power
):
    of = table(Selection(optimizer, uses="N"))
    planted = Table(of.rule)
    rows = [replace(row, **{field: getattr(row, field) and getattr(row, field) * N**power})
            for row in of.parameters]  # fmt: skip
    planted.__dict__.update(sublayers=of.sublayers, parameters=tuple(rows))
    refuted = {m.of for m in measured(planted) if m.verdict is Verdict.REFUTED}
    if field == "epsilon" and optimizer == "sgd":  # it has none
        assert not refuted
    else:
        assert any(of.startswith(named) for of in refuted)


def test_a_premise_that_takes_the_uses_as_independent_is_refuted():
    of = table(Selection("sgd", uses="N"))
    planted = Table(of.rule)
    rows = (replace(of.sublayers[0], independent=of.sublayers[0].independent / N),)
    planted.__dict__.update(sublayers=rows, parameters=of.parameters)
    (refuted,) = (m.of for m in measured(planted) if m.verdict is Verdict.REFUTED)
    assert refuted == "S*n_u*r^2 of encoder, *"
