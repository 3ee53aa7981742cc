"""What holds of every derivation: its steps, its rule, what stands beside, its formats."""

import json
from dataclasses import replace

import derivations
import pytest
import sympy as sp

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.proof.algebra import sized
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.exponents import Exponents
from deepnet_theory.sizes.monomial import solve
from deepnet_theory.sizes.table import texts

N, M, alpha = sp.symbols("N M alpha", positive=True)
# the premises that hold by decree, whose steps are not for algebra to prove
IMPOSED = ("balance-", "closure-", "fixed-alpha-")
SIXTEENTH = sp.Rational(1, 16)


# ---- every derivation ----


def test_every_step_is_proved_and_every_number_beside_is_measured(derived):
    for step in derived.steps:
        imposed = step.name.startswith(IMPOSED)
        expected = Verdict.IMPOSED if imposed else Verdict.PROVED
        assert derived.verdicts[step.name] is expected, (step.name, step.failures())
    assert [fact for fact in derived.measured if fact.verdict is Verdict.REFUTED] == []
    assert derived.verdict is Verdict.PROVED
    route = derived.selection.method
    assert derived.relation.name == ("BOUND" if route != "probe" else "ORDER")
    pairs = zip(derived.rule.entries, texts(derived.table.rule).entries, strict=True)
    assert all(ours.norm_epsilon == theirs.norm_epsilon for ours, theirs in pairs)


def test_a_derived_rule_keeps_its_own_output_change(derived):
    """Put back at the rule, the scaled matrices add to the balance, and no exponent is left."""
    scaled = [row.share for row in derived.parameters if row.place.kind is Role.SCALED]
    assert scaled and all(share is not None and not share.symbols for share in scaled)
    # the lemma's constants keep the number of a branch's matrices
    assert derived.selection.method != "probe" or {str(share) for share in scaled} == {"1"}
    if len(derived.selection.the_stack.parts) == 1:
        assert set(Exponents(derived.selection, derived.rule).all().values()) == {0}


def test_alpha_grows_and_beta_falls_with_the_depth(derived):
    for entry in derived.rule.entries:
        if len(derived.selection.the_stack.parts) > 1 and entry.part == "encoder":
            continue  # its constants depend on the decoder's depth too
        (a, b), (deep_a, deep_b) = (entry.at(N=n, M=n) for n in (5, 50))
        assert deep_a >= a and deep_b <= b
        rated = entry.rate != "1" or derived.rule.eta != "1"
        assert rated or (deep_a, deep_b) != (a, b)


def test_it_reads_back_from_json_and_says_what_an_answer_says(derived):
    data = json.loads(derived.to_json())
    for key, value in json.loads(Answer(derived.selection).to_json()).items():
        if key not in ("rule", "eta", "schema"):
            assert data[key] == value, key
    assert data["schema"] == "deepnet-theory/derivation/1" and data["verdict"] == "PROVED"
    names = [step["name"] for step in data["steps"]]
    for index, step in enumerate(data["steps"]):
        assert set(step["uses"]) <= set(names[:index])
        assert step["because"] and step["source"]
        assert "Subs(" not in step["lhs"] + step["rhs"]
    assert {row["verdict"] for row in data["measured"]} == {"MEASURED"}


def test_it_holds_nothing_beside_its_conclusion(derived):
    resting = {step.name for step in derived.support}
    beside = [step.name for step in derived.steps if step.name not in resting]
    assert [name for name in beside if "weight" not in name and "order-" not in name] == []


@pytest.mark.parametrize(
    ("name", "matrix", "probe"),
    [
        ("sgd post-ln", "ffn-fc1", "radial"),
        ("adam res-post-ln", "ffn-fc1", "transverse"),  # the norm hides its magnitude
        ("norms inside post-ln", "ffn-sub-ln-fc2", "radial"),
    ],
)
def test_a_gradient_rests_on_the_probe_that_tells(name, matrix, probe):
    names = {step.name: step for step in derivations.derivation(name).steps}
    assert f"{probe}-{matrix}" in names[f"gradient-{matrix.rpartition('-')[0]}"].uses
    other = {"radial": "transverse", "transverse": "radial"}[probe]
    assert f"{other}-{matrix}" not in names


# ---- errors in a step ----


@pytest.fixture(scope="session", params=derivations.PLANTED)
def planted(request):
    return derivations.derivation(request.param)


def scalars(step):
    """What the step speaks of: the depths first, then α, then its other scalars."""
    held = {s for s in step.free_symbols if s.is_commutative and s.is_positive}
    if step.name.startswith("closure-"):
        return [N]  # alpha = alpha^(1/16) is the same condition as alpha = 1
    first = [s for s in (N, M, alpha) if s in held]
    return [*first, *sorted(held - {*first}, key=str)] or [N]


def errors(step):
    """What no step of its relation may pass."""
    # the passage is an order where the decoder's depth grows, whatever the encoder's is
    of = M if step.name.startswith("passage-") else scalars(step)[0]
    power = of**SIXTEENTH
    yield "exponent", replace(step, rhs=step.rhs * power)
    if step.relation.name == "EQUAL":
        yield "sign", replace(step, rhs=-step.rhs)
        yield "factor 2", replace(step, rhs=2 * step.rhs)
        yield "factor 2 on the left", replace(step, lhs=2 * step.lhs)
        yield "addend", replace(step, rhs=step.rhs + 1)
        # an increment is held at the rule, where a knob may be 1, as a power 0 is in a law of rho
        last, held = scalars(step)[-1], step.name.startswith(("increment-",))
        if step.rhs.has(last) and not step.imposed and not held:
            yield f"{last} squared", replace(step, rhs=step.rhs.subs(last, last**2))
    if step.relation.name == "AT_MOST":
        yield "sign", replace(step, rhs=-step.rhs)
        yield "sides exchanged", replace(step, lhs=step.rhs, rhs=step.lhs)
        # a bound is not reached, and need not see a factor two; a hundred million it must
        yield "left", replace(step, lhs=10**8 * step.lhs)
    if step.name.startswith(("sum-", "solution-")) and step.rhs.has(N):
        yield "layers for sublayers", replace(step, rhs=step.rhs.subs(N, N / 2))


STATED = {}  # the derivation where what a step states, and by which checks, is planted


def states_first(step, name):
    """Whether no other derivation states the same by the same checks: half of the steps do."""
    checks = tuple(check.name for check in step.checks)
    stated = (step.lhs, step.relation, step.rhs, step.imposed, checks)
    return STATED.setdefault(stated, name) == name


def test_an_error_in_any_step_is_refused(planted):
    unseen = [
        (step.name, error)
        for step in planted.steps
        # what is 0 is 0 when doubled
        if step.rhs != 0 and states_first(step, planted.selection)
        for error, wrong in errors(step)
        if wrong.check() is not Verdict.REFUTED
    ]
    # growing by a sixteenth, an upper bound remains one
    assert [(n, e) for n, e in unseen if planted.step(n).relation.name != "AT_MOST"] == []
    assert [e for _, e in unseen if e != "exponent"] == []


def blind(check, step):
    """Whether a check by itself passes a bound of a tenth, or else every error that is planted."""
    alone = replace(step, checks=(check,))
    if step.relation.name == "AT_MOST":
        return not replace(alone, rhs=step.rhs / 10).failures()
    held = {s for s in step.free_symbols if s.is_commutative and s.is_positive} | {N, M}
    powers = (step.rhs * s**SIXTEENTH for s in sorted(held, key=str))
    wrong = (-step.rhs, 2 * step.rhs, step.rhs + 1, *powers)
    return not any(replace(alone, rhs=rhs).failures() for rhs in wrong) and not (
        replace(alone, lhs=2 * step.lhs).failures()
    )


@pytest.mark.parametrize("name", ["sgd both", "lemma both", "lemma pre-ln", "parallel post-ln"])
def test_each_check_of_a_step_sees_an_error_without_the_others(name):
    found = [
        (step.name, check.name)
        for step in derivations.derivation(name).steps
        for check in step.checks
        if step.rhs != 0 and blind(check, step)
    ]
    assert found == []


# ---- errors in the rule, and in the order of steps ----


def orders(name):
    return [step for step in derivations.derivation(name).steps if step.name.startswith("order-")]


def test_every_order_is_of_order_one_at_the_recommended_rule_and_not_at_the_published_one():
    for name in ("adam recommended post-ln", "adamw recommended pre-ln", "sgd both recommended"):
        assert orders(name) and {step.rhs for step in orders(name)} == {sp.Integer(1)}
    for name, power in (("adam post-ln", "1/2"), ("sgd post-ln", "-1/4"), ("adam pre-ln", "1")):
        (published,) = orders(name)
        assert published.rhs == N ** sp.Rational(power)
        assert replace(published, rhs=sp.Integer(1)).check() is Verdict.REFUTED


@pytest.mark.parametrize("name", ["adamw recommended pre-ln", "learning-rate", "sgd both", "lemma"])
def test_a_value_of_the_table_that_does_not_fit_the_route_is_refuted(name):
    right = derivations.derivation(name)
    for step in map(right.step, right.conclusion):
        for by in (N**SIXTEENTH, 2):
            wrong = replace(step, rhs=step.rhs * by)
            assert "satisfies its conditions" in wrong.failures()


@pytest.mark.parametrize(
    "name", [f"{o} {p}" for o in ("sgd", "adam", "lamb") for p in ("post-ln", "pre-ln")]
)
def test_alpha_and_beta_follow_from_the_conditions_by_logarithms(name):
    """Without the table: the imposed steps are linear in logarithms, with one solution."""
    right = derivations.derivation(name)
    imposed = [sized(s.lhs / s.rhs) for s in right.steps if s.imposed]
    steps = [right.step(conclusion) for conclusion in right.conclusion]
    found = solve(imposed, [str(step.lhs) for step in steps])
    assert found.values == {str(step.lhs): sized(step.rhs) for step in steps}
