"""A derivation as data: its JSON has the public keys, and expressions read back."""

import json

import pytest
import sympy as sp

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.derive import derive

N, M = sp.symbols("N M", positive=True)


@pytest.mark.parametrize(
    "selection",
    [
        Selection(optimizer="lamb"),
        Selection(optimizer="sgd", method="lemma", stack="encoder-decoder"),
        Selection(optimizer="adam", layer="attention,ffn:swiglu", stack="decoder"),
        Selection(update="-eta*g*norm(theta)", placement="pre-ln"),
    ],
    ids=lambda s: str(s.to_dict()),
)
def test_the_json_has_the_public_keys_and_reads_back(selection):
    derivation = derive(selection).at(N=12, M=6)
    data = json.loads(derivation.to_json())
    assert data["schema"] == "deepnet-theory/derivation/1"
    assert {"select", "rule", "eta", "steps", "assumptions", "consequences", "verdict"} <= set(data)
    assert data["verdict"] == "PROVED" and isinstance(data["consequences"], dict)
    for row in data["rule"]:
        alpha = sp.sympify(row["alpha"], locals={"N": N, "M": M})
        beta = sp.sympify(row["beta"], locals={"N": N, "M": M})
        assert float(alpha.subs({N: 12, M: 6})) == pytest.approx(row["alpha_value"])
        assert float(beta.subs({N: 12, M: 6})) == pytest.approx(row["beta_value"])
        by_kind = data["consequences"][row["stack"]][row["sublayer"]]
        weight = sp.sympify(by_kind["initial-weight"]["value"], locals={"N": N, "M": M})
        assert float(sp.log(weight / beta).subs({N: 12, M: 6})) == pytest.approx(0, abs=1e-12)
    names = [s["name"] for s in data["steps"]]
    for index, step in enumerate(data["steps"]):
        assert {"relation", "lhs", "rhs", "because", "source", "uses", "verdict"} <= set(step)
        assert set(step["uses"]) <= set(names[:index])
        assert step["because"] and step["source"]


def test_values_stand_only_with_a_depth():
    assert "alpha_value" not in derive(Selection(optimizer="sgd")).to_dict()["rule"][0]


def test_a_decoder_only_rule_speaks_of_m():
    (row,) = derive(Selection(optimizer="sgd", stack="decoder")).to_dict()["rule"]
    assert row["stack"] == "decoder" and "M" in row["alpha"] and "N" not in row["alpha"]


def test_a_depth_may_stand_without_its_name_where_there_is_one_stack():
    for stack, name in (("encoder", "N"), ("decoder", "M")):
        d = derive(Selection(optimizer="lamb", stack=stack))
        assert d.at(8).to_dict() == d.at(**{name: 8}).to_dict()
        assert d.rule.beta_at(8) == 0.25
    with pytest.raises(InputError, match="N=18, M=6"):
        derive(Selection(optimizer="lamb", stack="encoder-decoder")).at(8)


def test_the_closures_weigh_against_each_other_as_su_argues():
    from deepnet_theory.sizes.consequences import compare_closures

    found = compare_closures(Selection(optimizer="sgd"))

    def exponent(closure):
        (value,) = [c.value for c in found[closure] if c.name == "relative-update"]
        return value.exponent("N")

    # the relative update stays with alpha = 1, shrinks with beta = 1, lies between if symmetric
    relative = {c: exponent(c) for c in ("unit-residual", "symmetric", "unit-init")}
    assert relative["unit-residual"] == 0 > relative["symmetric"] > relative["unit-init"]
