"""The epsilon of a norm on what falls with the depth: in rules, constants, models, measurements."""

import json
from dataclasses import replace
from itertools import product

import jsonschema
import pytest
import sympy as sp
import torch

import deepnet_theory as dt
from deepnet_theory.cli import main
from deepnet_theory.runtime import apply_, build, schema

SELECT = ("--optimizer", "sgd", "--placement", "res-post-ln", "--closure", "complete")
SMALL = ["--width", "32", "--heads", "2", "--tokens", "8", "--seeds", "2", "--draws", "1"]
FIXED = 1e-5


def derived(capsys, *select):
    assert main(["derive", *select, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


RES, SANDWICH = ("--placement", "res-post-ln"), ("--placement", "sandwich-ln")
SQUARED = ("--update", "-eta*sign(g)*g**2")
# a selection, and the epsilon of every entry of its rule
EPSILONS = (
    (("--optimizer", "sgd", *RES), [{"output": "(2*N)**(-2)"}]),
    (("--optimizer", "sgd", *SANDWICH), [{"output": "(2*N)**(-2)"}]),
    (("--update", "-eta*sign(g)*sqrt(abs(g))", *SANDWICH, "--layer", "attention,ffn:swiglu"),
     [{"output": "(2*N)**(-4/3)"}, {"output": "(2*N)**(-2)"}]),
    # under degree 2 the multiplier of the stream falls too: 2N(2N)^(-4/3) and its square
    (SQUARED, [{"sum": "(2*N)**(-2/3)"}]),
    ((*SQUARED, *RES), [{"output": "(2*N)**(-8/3)"}]),
    # a norm that the stream feeds keeps its own
    *((("--optimizer", name, "--placement", placement), [None]) for name, placement in
      product(("sgd", "adam"), ("post-ln", "pre-ln", "branch-multiplier"))),
)  # fmt: skip


@pytest.mark.parametrize(("select", "epsilons"), EPSILONS)
def test_epsilon_falls_as_the_square_of_the_gains(select, epsilons, capsys):
    found = derived(capsys, *select, "--closure", "complete")
    assert [entry.get("norm_epsilon") or None for entry in found["rule"]] == epsilons
    told = [{n["norm"]: n["epsilon"]} for n in found["norm_epsilon"]]
    assert told == [e for e in epsilons if e]
    assert {n["fixed_epsilon"] for n in found["norm_epsilon"]} <= {FIXED}
    named = any(row["of"].startswith("epsilon of the norm") for row in found["measured"])
    assert named == bool(told) and (told or "epsilon" not in found["in_depth"])


def test_a_rule_has_its_epsilon_though_the_one_to_train_with_needs_none(capsys):
    found = derived(capsys, "--optimizer", "lamb", *RES, "--closure", "symmetric")
    assert [entry["norm_epsilon"] for entry in found["rule"]] == [{"output": "(2*N)**(-4)"}]
    assert [norm["epsilon"] for norm in found["norm_epsilon"]] == ["(2*N)**(-4)"]
    assert "norm_epsilon" not in found["training"][0]


def test_the_answer_says_how_deep_a_fixed_epsilon_reaches(capsys):
    assert main(["derive", *SELECT]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "One learning rate serves every depth" in told
    assert "multiply its epsilon by (2*N)**(-2)" in told
    assert "159 layers on in attention, 90 layers on in ffn" in told
    # the rule that is first derived does not fall; the one that it sends to does
    assert main(["derive", *SELECT[:4], "--depth", "100"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "multiply its epsilon by (2*N)**(-2) = 2.5e-05" in told


@pytest.mark.parametrize(("kind", "least"), [("ffn", 0.9), ("attention", 0.0)])
def test_there_a_branch_that_is_built_has_a_variance_of_epsilon(kind, least, capsys):
    """Exactly a feed-forward's, at most an attention's, which averages."""
    (norm,) = derived(capsys, *SELECT)["norm_epsilon"]
    depth = round(float(sp.sympify(norm["sinks_from"][kind])))
    whole = dt.export(
        dt.derive("sgd", placement="res-post-ln", closure="complete"), depth, width=256
    )
    one = replace(whole, parts=tuple(replace(part, layers=1) for part in whole.parts))
    model = build(one, generator=torch.Generator().manual_seed(0))
    residual = next(r for r in model.residuals() if r.site.kind == kind)
    x = torch.randn(1, 64, 256, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        variance = residual.branch(x).var().item()
    assert least * FIXED < variance < 1.1 * FIXED


def test_constants_hold_it_and_the_model_is_built_with_it(tmp_path, capsys):
    path = tmp_path / "constants.json"
    assert (
        main(
            ["export", *SELECT, "--depth", "100", "--width", "32", "--heads", "2", "-o", str(path)]
        )
        == 0
    )
    held = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(held, schema())
    for sublayer in held["parts"][0]["sublayers"]:
        assert sublayer["norm_epsilon"] == {"output": pytest.approx(1 / 200**2)}
    model = build(path, generator=torch.Generator().manual_seed(0))
    x = torch.randn(1, 8, 32, generator=torch.Generator().manual_seed(1))
    for residual in list(model.residuals())[:2]:
        with torch.no_grad():
            put_out = (residual(x) - x) * residual.alpha
            assert residual.branch(x).var() < FIXED  # a fixed one would be the larger
        assert put_out.var().item() == pytest.approx(1, rel=0.01)
    held["parts"][0]["sublayers"][0]["norm_epsilon"] = {"input": 1.0}
    path.write_text(json.dumps(held), encoding="utf-8")
    with pytest.raises(dt.InputError, match="norm of 'res-post-ln' 'input'"):
        build(path)


def test_predicted_and_measured_changes_stay_where_a_fixed_epsilon_loses_them(capsys):
    assert (
        main(["predict", *SELECT, "--depths", "8,1000", *SMALL, "--format", "json", "--quiet"]) == 0
    )
    shallow, deep = (p["mean"] for p in json.loads(capsys.readouterr().out)["points"])
    assert deep == pytest.approx(shallow, rel=0.15)


def test_a_rule_of_ones_own_has_it_too():
    own = dt.own_rule(dt.derive("sgd", placement="res-post-ln"), "2*N", "(2*N)**(-1/2)")
    derived = dt.derive("sgd", placement="res-post-ln", closure="complete").rule
    assert own.entries[0].norm_epsilon == derived.entries[0].norm_epsilon != ()
    plain = dt.own_rule(dt.derive("sgd", placement="res-post-ln"), "2*N", "1")
    assert plain.entries[0].norm_epsilon == ()


def test_what_is_in_a_models_code_is_asked_for(capsys):
    """An epsilon is read off no forward pass: an audit and apply_ say which one is wanted."""
    derivation = dt.derive("sgd", placement="res-post-ln", closure="complete")
    constants = dt.export(derivation, 4, width=16, heads=2, vocab=32)
    ids = torch.randint(32, (1, 8), generator=torch.Generator().manual_seed(0))
    model = build(constants)
    found = dt.audit(model, ids, constants=constants)
    assert any("on the output, 0.0156 times 1e-05" in told for told in found.remarks)
    told = str(apply_(model, constants, inputs=ids, initialise=True))
    assert "set the epsilon of norms on the output to 1.56e-07" in told
