"""Texts of every shape through the parser, the degrees of updates, and own rules."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deepnet_theory.cli.deriving import own_rule
from deepnet_theory.definitions.expression import DEPTH, UPDATE
from deepnet_theory.definitions.outcome import DeepNetTheoryError, Verdict
from deepnet_theory.definitions.placement import PLACEMENT
from deepnet_theory.definitions.rule import CLOSURE
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.derivation import derive
from deepnet_theory.sizes.exponents import Exponents

from .hostile import RANDOM, ended, tried
from .texts import any_text, text


@pytest.mark.parametrize("grammar", [UPDATE, DEPTH, PLACEMENT, CLOSURE], ids=lambda g: g.purpose)
@tried(300)
@given(rng=RANDOM)
def test_every_text_parses_or_is_refused(grammar, rng):
    ended(lambda: grammar.parse(any_text(rng, grammar)), seconds=1)


def _update(rng):
    """An update that often has a law: a direction times sizes, in sums, maxima and minima."""
    direction = rng.choice(["g", "sign(g)", "polar(g)", "g/norm(g)", "sign(g)*abs(g)**(1/3)"])
    if rng.random() < 0.6:
        return f"-eta*{direction}*{text(rng, UPDATE, 3)}"
    written = rng.choice(["g", "-g", "-abs(g)"])
    for _ in range(rng.randint(1, 12)):
        other = rng.choice(["g", "-2*g", "abs(g)", "-rms(g)", "3*norm(g)", "-norm(g)/2"])
        one, two = rng.sample([written, other], 2)
        written = rng.choice(["({}+{})", "({}-{})", "max({},{})", "min({},{})"]).format(one, two)
    return f"-eta*{rng.choice([written, f'sign({written})'])}"


@tried(15)
@given(
    st.builds(_update, RANDOM),
    st.fixed_dictionaries({
        "placement": st.sampled_from(["post-ln", "pre-ln", "res-post-ln", "sandwich-ln"]),
        "stack": st.sampled_from(["encoder", "decoder"]),
        "method": st.sampled_from(["probe", "probe", "lemma"]),
        "closure": st.sampled_from([None, "symmetric", "unit-init", "learning-rate"]),
    }),
)  # fmt: skip
def test_every_update_is_derived_or_refused(update, select):
    selected = ended(lambda: Selection(update=update, **select))
    if isinstance(selected, Selection):
        found = ended(lambda: derive(selected), seconds=20)
        assert isinstance(found, DeepNetTheoryError) or found.verdict is Verdict.PROVED


ODD = [1, 2.5, 0, -1, 10**400, 10**5000, float("nan"), float("inf"), True, None, 1e308, [], b"N"]
KNOB = st.sampled_from(ODD) | st.builds(any_text, RANDOM, st.just(DEPTH))


@tried(100)
@given(
    st.sampled_from(["sgd", "adam", "lamb"]), st.sampled_from(["post-ln", "pre-ln", "res-post-ln"]),
    st.sampled_from(["encoder", "encoder-decoder"]), KNOB, KNOB,
)  # fmt: skip
@example("sgd", "post-ln", "encoder", 1, 10**400)  # no float holds it
def test_every_own_rule_has_exponents_or_is_refused(optimizer, placement, stack, alpha, beta):
    selection = Selection(optimizer=optimizer, placement=placement, stack=stack)

    def predicted():
        rule = own_rule(selection, alpha, beta)
        Exponents(selection, rule).all("all")
        for entry in rule.entries:
            entry.at(N=8, M=6)

    ended(predicted)
