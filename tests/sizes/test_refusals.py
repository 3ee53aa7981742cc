"""What has no rule is refused in one sentence, by the table and by the proof alike."""

import copy
import pickle

import pytest

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.rule import Closure, own_rule
from deepnet_theory.definitions.selection import METHODS, Selection
from deepnet_theory.definitions.sublayer import Sublayer
from deepnet_theory.proof.derivation import derive
from deepnet_theory.sizes.answer import compare_closures
from deepnet_theory.sizes.exponents import Exponents
from deepnet_theory.sizes.table import table, texts

BOTH = {"stack": "encoder-decoder"}
NO_CROSS = {"optimizer": "sgd", "layer": "attention,ffn", **BOTH}
# a selection, and the sentence that refuses it
REFUSED = (
    ({"update": "-eta*g/norm(g)**2", "closure": "symmetric"}, "use the closure learning-rate"),
    ({"optimizer": "sgd", "placement": "pre-ln", "closure": "symmetric"}, "unit-residual"),
    ({"optimizer": "adam", "placement": "pre-ln", "closure": "symmetric"}, "no knob"),
    ({"optimizer": "sgd", "placement": "res-post-ln", "closure": "symmetric"}, "unit-init"),
    (
        {"optimizer": "sgd", "placement": "res-post-ln", "closure": "unit-residual"},
        r"S\*r\^2 grow",
    ),
    ({"optimizer": "lamb", "placement": "res-post-ln", "closure": "unit-residual"}, "unit-init"),
    ({"optimizer": "adam", "closure": "learning-rate", **BOTH}, "one learning"),
    (NO_CROSS, "no cross-attention"),
    ({"optimizer": "sgd", "method": "lemma", "layer": "ffn:relu2"}, "a matrix is there more than"),
    ({"optimizer": "sgd", "method": "lemma", "layer": "ffn@2/8"}, "no law for the mixture of exp"),
    (
        {"optimizer": "adam", "placement": "pre-ln", "closure": "learning-rate"},
        r"changes shrink by .* complete or unit-residual$",
    ),
    *(
        ({"update": update}, r"add as sqrt\(S\)")
        for update in (
            "-eta*theta", "-eta*polar(theta)", "-eta*theta*norm(g)", "eta*abs(g)", "-eta*g*theta",
        )
    ),
    *(
        ({"update": update}, r"the loss rises.*write it with a minus sign")
        for update in ("eta*g", "eta*polar(g)", "eta*(norm(g)*sign(g) - 1.2*g)")
    ),
    (
        {"update": "-eta*sign(g)*abs(g)**(255/256)"},
        r"rule of the update '-eta\*sign\(g\).*smaller denom",
    ),
)  # fmt: skip
# an equation of your own, and the sentence that refuses it
EQUATIONS = (
    ("alpha*x + branch(norm(x))", r"multiplies the stream by 2\*N.*explodes with depth"),
    ("x/alpha + branch(norm(x))", "must be 1"),
    ("3*x/4 + branch(norm(x))", "vanishes with depth"),
    ("5*x/4 + branch(norm(x))/alpha", "explodes with depth"),
    ("norm(alpha*x - branch(x))", r"is not an identity path (plus|beside) one branch"),
    ("norm(branch(x)/2 - alpha*x)", r"is not an identity path (plus|beside) one branch"),
    *((equation, "no law for the placement 'mine'") for equation in (
        "norm(branch(x))", "branch(x)", "x", "x + branch(x) + branch(norm(x))", "x*x + branch(x)",
        "norm(x)", "x + branch(branch(x))")),
)  # fmt: skip


def refused_alike(selection, says):
    with pytest.raises(Refusal, match=says) as by_sizes:
        texts(table(selection).rule)
    with pytest.raises(Refusal, match=says) as by_proof:
        derive(selection)
    assert str(by_sizes.value) == str(by_proof.value)


@pytest.mark.parametrize(("select", "says"), REFUSED, ids=lambda v: str(v)[:60])
def test_what_has_no_rule_is_refused(select, says):
    refused_alike(Selection(**select), says)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("equation", "says"), EQUATIONS)
def test_an_equation_that_keeps_no_stream_is_refused(equation, says, method, monkeypatch):
    mine = Placement("mine", equation, final_norm=True)
    monkeypatch.setattr("deepnet_theory.definitions.placement.PLACEMENTS", {"mine": mine})
    refused_alike(Selection(optimizer="adam", placement="mine", method=method), says)


@pytest.mark.parametrize("method", METHODS)
def test_a_branch_that_no_one_gain_balances_is_refused(method, monkeypatch):
    mine = Sublayer("mine", "x*inner + phi(x*inner)*out")
    monkeypatch.setattr("deepnet_theory.definitions.sublayer.SUBLAYERS", {"mine": mine})
    says = r"no law for the sublayer 'mine'.*no one beta balances it"
    refused_alike(Selection(optimizer="sgd", layer="mine", method=method), says)


def test_other_questions_refuse_what_has_no_answer(monkeypatch):
    no_cross = Selection(**NO_CROSS)
    with pytest.raises(Refusal, match="no cross-attention"):
        compare_closures(no_cross)
    with pytest.raises(Refusal, match="without cross-attention"):
        Exponents(no_cross, own_rule(("encoder", "decoder"), "1", "1")).all()
    empty = Closure("empty", (("alpha", "alpha"),))
    monkeypatch.setattr("deepnet_theory.definitions.selection.CLOSURES", {"empty": empty})
    for more, named in (
        ({}, "alpha, beta"),
        ({"stack": "encoder-decoder"}, "alpha_d, beta_d"),
        (
            {"optimizer": "adam", "layer": "attention,ffn:swiglu"},
            "alpha_attention, beta_attention, alpha_ffnswiglu, beta_ffnswiglu",
        ),
    ):
        with pytest.raises(Refusal, match=rf"leaves {named} undetermined in the (en|de)coder"):
            table(Selection(**{"optimizer": "sgd", "closure": "empty", **more}))


def test_a_refusal_looks_for_its_remedy_once_it_is_read():
    asked = []
    refusal = Refusal("no rule", lambda: asked.append(1) or "take another")
    assert not asked
    for read in (refusal, refusal, pickle.loads(pickle.dumps(refusal)), copy.copy(refusal)):
        assert str(read) == "no rule; take another"
    assert asked == [1]
