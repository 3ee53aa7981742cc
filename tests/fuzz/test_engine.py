"""Texts of every shape through the parser, the degrees of updates, and own rules."""

import pytest

from deepnet_theory.cli.deriving import own_rule
from deepnet_theory.definitions.expression import DEPTH, UPDATE
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.placement import PLACEMENT
from deepnet_theory.definitions.rule import CLOSURE
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.derivation import derive
from deepnet_theory.sizes.exponents import Exponents

from .texts import any_text, text


@pytest.mark.parametrize("grammar", [UPDATE, DEPTH, PLACEMENT, CLOSURE], ids=lambda g: g.purpose)
def test_every_text_parses_or_is_refused(fuzz, grammar):
    for case, rng in fuzz.cases(500):
        given = any_text(rng, grammar)
        fuzz.ends(case, given, lambda given=given: grammar.parse(given), seconds=1)


def _update(rng):
    """An update that often has a law: a direction times sizes, in sums with a regime each."""
    direction = rng.choice(["g", "sign(g)", "polar(g)", "g/norm(g)", "sign(g)*abs(g)**(1/3)"])
    if rng.random() < 0.6:
        return f"-eta*{direction}*{text(rng, UPDATE, 3)}", ()
    written, regimes = direction, []
    for _ in range(rng.randint(1, 26)):
        other = rng.choice(["theta", "1/1000", "norm(theta)", "g*theta", "abs(g)**2"])
        regimes.append((written, other) if rng.random() < 0.9 else (other, written))
        written = rng.choice(["({}+{})", "max({},{})", "({}-{})"]).format(written, other)
    return f"-eta*{written}", tuple(regimes)


def test_every_update_is_derived_or_refused(fuzz):
    for case, rng in fuzz.cases(15):
        update, regime = _update(rng)
        select = {
            "placement": rng.choice(["post-ln", "pre-ln", "res-post-ln", "sandwich-ln"]),
            "stack": rng.choice(["encoder", "decoder"]),
            "method": rng.choice(["probe"] * 4 + ["lemma"]),
            "closure": rng.choice([None, "symmetric", "unit-init", "learning-rate"]),
        }

        def derived(update=update, regime=regime, select=select):
            found = derive(Selection(update=update, regime=regime, **select))
            assert found.verdict is Verdict.PROVED

        fuzz.ends(case, (update, regime, select), derived, seconds=20)


def test_every_own_rule_has_exponents_or_is_refused(fuzz):
    for case, rng in fuzz.cases(150):
        selection = Selection(
            optimizer=rng.choice(["sgd", "adam", "lamb"]),
            placement=rng.choice(["post-ln", "pre-ln", "res-post-ln"]),
            stack=rng.choice(["encoder", "encoder-decoder"]),
        )
        alpha, beta = (_knob(rng) for _ in range(2))

        def predicted(selection=selection, alpha=alpha, beta=beta):
            rule = own_rule(selection, alpha, beta)
            Exponents(selection, rule).all("all")
            for entry in rule.entries:
                entry.at(N=8, M=6)

        fuzz.ends(case, (selection, alpha, beta), predicted)


ODD = [1, 2.5, 0, -1, 10**400, 10**5000, float("nan"), float("inf"), True, None, 1e308, [], b"N"]


def _knob(rng):
    return rng.choice(ODD) if rng.random() < 0.1 else any_text(rng, DEPTH)


def test_a_case_that_does_not_end_or_breaks_is_caught(fuzz):
    def late():
        while True:
            pass

    with pytest.raises(AssertionError, match="case 3: 'x' ends in TimeoutError"):
        fuzz.ends(3, "x", late, seconds=0.05)
    with pytest.raises(AssertionError, match="ends in ZeroDivisionError"):
        fuzz.ends(0, "x", lambda: 1 / 0)
    assert fuzz.ends(0, "g", lambda: UPDATE.parse("-eta*g")).names == {"eta", "g"}
