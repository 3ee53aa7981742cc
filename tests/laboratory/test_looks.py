"""Sequential looks: coverage and power over synthetic sweeps, and what real stacks take."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_rules import SMALL, depths, predictions, rule

from deepnet_theory.definitions.measurement import Exponent, Predictions, prediction
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import Selection, stack
from deepnet_theory.laboratory.judging import judge_exponent
from deepnet_theory.laboratory.settings import wanted_depths
from deepnet_theory.laboratory.statistics import CONFIDENCE
from deepnet_theory.laboratory.verify import decided, looks_at, verify

DEFAULT = wanted_depths(None, stack("encoder"))
LOOKS = looks_at(DEFAULT, 8, fewer_depths=True)
SWEEPS = 1000
NOISE = 0.06  # of one depth's logarithm: some sweeps end at each look
ERROR = 2 * math.sqrt((1 - CONFIDENCE) * CONFIDENCE / SWEEPS)  # of a share, two sigma


@given(st.integers(2, 40), st.booleans(), st.sampled_from(["encoder", "encoder-decoder"]))
def test_looks_spend_five_per_cent_and_end_with_everything(most, fewer, name):
    wanted = wanted_depths(None, stack(name))
    looks = looks_at(wanted, most, fewer)
    assert sum(1 - look.confidence for look in looks) == pytest.approx(1 - CONFIDENCE)
    assert looks[-1].seeds == most == sum(look.new for look in looks)
    assert looks[-1].depths == wanted
    assert looks[0].seeds in (3, most) and all(look.new > 1 for look in looks)
    for symbol in wanted[0]:
        first, whole = ({d[symbol] for d in look.depths} for look in (looks[0], looks[-1]))
        assert {min(whole), max(whole)} <= first and len(first) >= 3


def ended(sweeps, looks, predicted, rivals=()):
    """Each sweep's exponent where the looks at it end, and the seeds that it took."""
    asked = Exponent("N", "all", predicted=predicted, rivals=rivals)
    for sweep in sweeps:
        for look in looks:
            kept = [DEFAULT.index(depth) for depth in look.depths]
            values = sweep[: look.seeds, kept]
            e = judge_exponent(asked, look.depths, values, len(kept), confidence=look.confidence)
            if decided([e], look, looks):
                break
        yield e, look.seeds


def sweeps_of(exponent, noise, seed=0):
    """Powers of the depth, (sweeps, seeds, depths), whose logarithms scatter at each depth."""
    draws = np.random.default_rng(seed)
    layers = np.log([float(depth["N"]) for depth in DEFAULT])
    common = draws.normal(0, 1, (SWEEPS, 8, 1))  # of a seed at all depths
    return np.exp(exponent * layers + common + draws.normal(0, noise, (SWEEPS, 8, len(DEFAULT))))


def covered(looks, noise):
    found = list(ended(sweeps_of(0.0, noise), looks, 0.0))
    return sum(e.low <= 0.0 <= e.high for e, _ in found) / SWEEPS, {n for _, n in found}


def test_coverage_is_kept_at_whichever_look_it_ends():
    share, taken = covered(LOOKS, NOISE)
    assert share >= CONFIDENCE - ERROR
    assert taken == {look.seeds for look in LOOKS}
    unspent = [look._replace(confidence=CONFIDENCE) for look in LOOKS]
    assert covered(unspent, NOISE)[0] < CONFIDENCE - ERROR  # the error that spending prevents


def test_a_planted_eighth_is_found_and_is_never_taken_for_a_constant():
    found = list(ended(sweeps_of(1 / 8, NOISE), LOOKS, 0.0, (("rival", 1 / 8),)))
    verdicts = [e.verdict for e, _ in found]
    assert verdicts.count(Verdict.REFUTED) >= 0.99 * SWEEPS
    assert Verdict.SUPPORTED not in verdicts
    assert {n for _, n in found} == {5, 8}  # all depths are needed to refute


# ---- real stacks ----

THREE, MOST = replace(SMALL, draws=1), replace(SMALL, draws=1, seeds=7)
PLACES = depths(1, 2, 3, 4, 5)
ADAM = Selection(optimizer="adam"), rule("adam")


def planted(exponent):
    return Predictions((prediction("N", "all", exponent),), predictions("adam", "adam").assumptions)


def looked(exponent, **work):
    looks = looks_at(PLACES, MOST.seeds, fewer_depths=True)
    return verify(*ADAM, planted(exponent), PLACES, MOST, looks=looks, **work)


def test_later_looks_add_seeds_and_depths_to_the_first_until_the_budget_ends():
    fixed = verify(*ADAM, planted(None), PLACES[1:3], THREE)
    assert fixed.because == "" and fixed.settings["seeds"] == THREE.seeds == 3
    found = looked(None)  # nothing decides what nobody predicts
    assert (found.verdict, found.settings["seeds"]) == (Verdict.UNDECIDED, 7)
    assert found.because.startswith("7 of up to 7 seeds at 5 of 5 depths were measured: the budget")
    for one, three in zip(found.points[1:3], fixed.points, strict=True):
        assert len(one.values) == len(set(one.values)) == 7
        assert one.values[:3] == three.values and one.predicted is not None
    assert json.loads(found.to_json())["points"][0]["seeds"] == 7


def test_an_interrupt_at_a_later_look_leaves_the_first_one_whole():
    def interrupt(done, total, what):
        if what.endswith("depth 2"):
            raise KeyboardInterrupt

    found = looked(Fraction(9), progress=interrupt)
    assert (found.verdict, found.exit_code) == (Verdict.UNDECIDED, 130)
    assert [(p.at["N"], len(p.values)) for p in found.points] == [(1, 3), (3, 3), (5, 3)]
