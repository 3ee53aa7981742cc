"""What makes several sublayers as good as one: experts, parallel and shared ones."""

import derivations
import pytest

from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.definitions.selection import Selection, stack
from deepnet_theory.definitions.sublayer import sublayer
from deepnet_theory.proof import witness
from deepnet_theory.proof.derivation import derive
from deepnet_theory.sizes.monomial import Monomial

N, ONE = Monomial.of("N"), Monomial()
REFUSED = (  # what is asked for, and what is said
    *((lambda name=name: sublayer(name), name)
      for name in ("ffn@9/8", "attention@2/8", "ffn@1/1", "ffn@0/8", "ffn@2")),
    *((lambda layer=layer: stack("encoder", layer), "is empty or has an empty sublayer")
      for layer in ("attention+", "+ffn", "attention++ffn", ",attention+ffn", "+")),
)  # fmt: skip
NO_LAW = (
    (lambda: derive(Selection("sgd", layer="ffn@2/8", method="lemma")),
     "has no law for the mixture of experts"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [*((a, InputError, says) for a, says in REFUSED), *((a, Refusal, says) for a, says in NO_LAW)],
)
def test_what_is_not_so_many_is_refused(asked, error, says):
    with pytest.raises(error, match=says):
        asked()


# ---- experts ----


def test_a_layer_says_how_many_of_how_many_experts():
    own = sublayer("ffn:swiglu@2/8")
    assert (own.name, own.chosen, own.experts) == ("ffn-swiglu@2/8", 2, 8)
    assert [m.name for m in own.unscaled] == ["router"]
    assert own.last_map == sublayer("ffn-swiglu").last_map
    assert sublayer("ffn@8/256").last_map == ("fc2", "fc2_bias")


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("field", witness.Mixed._fields)
def test_experts_that_did_otherwise_would_refute_the_table(field, monkeypatch):
    right = witness.mixed

    def other(of):
        numbers = right(of)
        twice = {field: getattr(numbers, field) * 2}
        return numbers._replace(**twice) if of.experts > 1 else numbers

    monkeypatch.setattr(witness, "mixed", other)
    monkeypatch.setattr("deepnet_theory.proof.stack.mixed", other)
    refuted = {row.verdict for row in derive(derivations.selection("experts sgd")).measured}
    assert Verdict.REFUTED in refuted
