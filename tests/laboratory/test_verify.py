"""Verify from end to end: looks, verdicts, partial results, and going on from them."""

import json
import math
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_rules import SMALL, SU, depths, predicted, predictions, rule

from deepnet_theory.cli.experiments import verify as across_width
from deepnet_theory.definitions.assumption import ASSUMPTIONS, Assumption
from deepnet_theory.definitions.measurement import Exponent, Predictions, prediction
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection, stack
from deepnet_theory.laboratory.judging import judge_exponent
from deepnet_theory.laboratory.settings import Settings, wanted_depths
from deepnet_theory.laboratory.statistics import CONFIDENCE
from deepnet_theory.laboratory.verify import decided, looks_at, verify
from deepnet_theory.processes.jobs import ThisProcess
from deepnet_theory.processes.keep import Cache

SELECTION = Selection(optimizer="adam")
PREMISES = predictions("adam", "adam", [ASSUMPTIONS["near-identity"]])
RIGHT = predictions("adam", "adam")
GIVEN = (SELECTION, rule("adam"), PREMISES, depths(1, 2, 3), SMALL)
LAB = Settings(width=16, heads=2, tokens=8, seeds=8, draws=1)
DEEP = depths(4, 8, 16)


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """What several tests ask of the same stacks."""
    return Cache(tmp_path_factory.mktemp("measured"))


@pytest.mark.parametrize("optimizer", ["adam", pytest.param("lamb", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(SU))
def test_cross_table_of_rules_and_optimizers(optimizer, name, measured):
    asked = Selection(optimizer=optimizer), rule(name)
    found = verify(*asked, predictions(optimizer, name), DEEP, LAB, cache=measured)
    (exponent,), law = found.exponents, predicted(optimizer, name)
    assert abs(exponent.estimate - float(law)) < 0.08
    # the other optimizers' predictions, which differ, are never supported
    for wrong in {predicted(optimizer, other) for other in SU} - {law}:
        planted = Predictions((prediction("N", "all", wrong),))
        judged = verify(*asked, planted, DEEP, LAB, cache=measured)
        assert judged.verdict is Verdict.REFUTED


def test_constant_is_another_question_than_the_verdict_and_premises_have_their_own(measured):
    """Half of Adam's exponents leave half a power of the depth, which is what is predicted."""
    half = own_rule(("encoder",), "(2*N)**(1/4)", "(8*N)**(-1/4)")
    growing = Predictions((prediction("N", "all", Fraction(1, 2)),))
    found = verify(SELECTION, half, growing, DEEP, LAB, cache=measured)
    assert found.verdict is Verdict.SUPPORTED
    assert not found.constant and json.loads(found.to_json())["constant"] is False
    assert found.trend.startswith("GROWS as N^0.") and found.trend.endswith("as predicted")
    wrong = verify(SELECTION, half, RIGHT, DEEP, LAB, cache=measured)
    assert wrong.trend.startswith("GROWS as N^0.") and "N^0.00 was predicted" in wrong.trend
    names = "near-identity", "unit-activations", "aligned-updates", "equal-gains"
    planted = Assumption("planted", "r is the same at every depth", "branch_weight")
    asked = predictions("adam", "adam", [*(ASSUMPTIONS[name] for name in names), planted])
    right = verify(SELECTION, rule("adam"), asked, DEEP, LAB, cache=measured)
    verdicts = [str(premise.verdict) for premise in right.assumptions]
    assert verdicts == [*["SUPPORTED"] * 3, "ASSUMED", "REFUTED"]
    assert right.verdict is Verdict.SUPPORTED
    assert right.constant and right.trend.startswith("is CONSTANT in N, exponent ")


def test_interrupt_leaves_a_partial_result_that_the_next_call_completes(cache, elsewhere):
    def interrupt(done, total, what):
        assert 0 <= done <= total
        if what == "model update, draw 1 at depth 3":
            raise KeyboardInterrupt

    part = verify(*GIVEN, progress=interrupt, cache=cache)
    assert len(part.points) == 2 and part.stopped
    assert (part.verdict, part.exit_code) == (Verdict.UNDECIDED, 130)
    assert part.exponents[0].verdict is Verdict.UNDECIDED
    assert any(w.startswith("interrupted: 2 of 3 depths") for w in part.provenance.warnings)
    assert json.loads(part.to_json())["complete"] is False and not part.constant
    kept, done, whole = len(list(cache.files())), [], verify(*GIVEN)
    assert json.loads(whole.to_json())["complete"] is True
    work = {"executor": elsewhere, "progress": lambda now, of, _: done.append(now / of)}
    resumed = verify(*GIVEN, cache=cache, **work)
    assert cache.taken == kept > 2
    assert done == sorted(done) and done[-1] == 1
    for name in ("points", "exponents", "assumptions"):
        assert getattr(resumed, name) == getattr(whole, name), name
    nothing = verify(*GIVEN, progress=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert (nothing.verdict, nothing.points) == (Verdict.UNDECIDED, ())
    json.loads(nothing.to_json())


class Broken(ThisProcess):
    """An executor of which nothing comes."""

    def __init__(self, error):
        self.error = error

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_exception(self.error)
        return future


NO_MEMORY = RuntimeError(
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
)


@pytest.mark.parametrize("error", [BrokenProcessPool("x"), MemoryError(), NO_MEMORY])
def test_where_nothing_was_measured_one_sentence_says_why(error):
    with pytest.raises(InputError, match="memory") as said:
        verify(*GIVEN, executor=Broken(error))
    assert "\n" not in str(said.value)
    with pytest.raises(RuntimeError, match="another"):
        verify(*GIVEN, executor=Broken(RuntimeError("another")))


def test_nan_is_a_finding_and_never_a_pass():
    selection = Selection(optimizer="adam", placement="pre-ln")
    huge = own_rule(("encoder",), "1", "10**15")
    found = verify(selection, huge, RIGHT, depths(1, 2), SMALL)
    assert found.verdict is Verdict.UNDECIDED
    assert any("not finite in 3 of 3 seeds" in w for w in found.provenance.warnings)
    assert math.isnan(found.points[0].mean)
    assert json.loads(found.to_json())["points"][0]["mean"] is None


def test_rule_and_depths_are_refused_before_measuring():
    unknown = predictions("adam", "adam", [Assumption("x", "y", "no_such_thing")])
    for given_rule, numbers, asked, said in (
        (own_rule(("encoder",), "N - 4", "1"), (2, 4), RIGHT, "positive"),
        (rule("adam"), (8,), RIGHT, "give no exponent"),
        (rule("adam"), (2, 4), unknown, "no_such_thing"),
    ):
        work = {"executor": Broken(SystemError())}
        with pytest.raises(InputError, match=said):
            verify(SELECTION, given_rule, asked, depths(*numbers), SMALL, **work)


def test_encoder_decoder_with_shares():
    pair = Selection(optimizer="adam", stack="encoder-decoder")
    shares = ("all", "encoder", "decoder", "value")
    asked = Predictions(tuple(prediction(v, share, None) for v in "NM" for share in shares))
    places = [{"N": n, "M": m} for n, m in ((1, 1), (2, 1), (1, 2))]
    lab = replace(SMALL, seeds=2, draws=1)
    found = verify(pair, own_rule(("encoder", "decoder"), "1", "1/2"), asked, places, lab)
    assert [(e.variable, e.share) for e in found.exponents] == [
        (v, s) for v in "NM" for s in shares
    ]
    assert all(math.isfinite(e.estimate) for e in found.exponents)
    assert found.verdict is Verdict.UNDECIDED  # nothing was predicted


def test_across_the_width_features_and_loss_change_as_much_at_every_width():
    small = {"tokens": 4, "heads": 2, "seeds": 2}
    found = across_width("adam", depths=[1], across="width", widths=[16, 32, 64], **small)
    assert [p.at for p in found.points] == [{"N": 1, "d": d} for d in (16, 32, 64)]
    assert len(found.exponents) == 2 and {e.variable for e in found.exponents} == {"d"}
    for one in found.exponents:
        assert one.predicted == 0 and one.estimate == pytest.approx(0, abs=0.25)


DEFAULT = wanted_depths(None, stack("encoder"))
LOOKS = looks_at(DEFAULT, 8, fewer_depths=True)
SWEEPS = 1000
SCATTER = 0.06  # of one depth's logarithm: some sweeps end at each look
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
    share, taken = covered(LOOKS, SCATTER)
    assert share >= CONFIDENCE - ERROR
    assert taken == {look.seeds for look in LOOKS}
    unspent = [look._replace(confidence=CONFIDENCE) for look in LOOKS]
    assert covered(unspent, SCATTER)[0] < CONFIDENCE - ERROR  # the error that spending prevents


def test_a_planted_eighth_is_found_and_is_never_taken_for_a_constant():
    found = list(ended(sweeps_of(1 / 8, SCATTER), LOOKS, 0.0, (("rival", 1 / 8),)))
    verdicts = [e.verdict for e, _ in found]
    assert verdicts.count(Verdict.REFUTED) >= 0.99 * SWEEPS
    assert Verdict.SUPPORTED not in verdicts
    assert {n for _, n in found} == {5, 8}  # all depths are needed to refute


# ---- real stacks ----

THREE, MOST = replace(SMALL, draws=1), replace(SMALL, draws=1, seeds=7)
PLACES = depths(1, 2, 3, 4, 5)
ASKED = Selection(optimizer="adam"), rule("adam")


def planted(exponent):
    return Predictions((prediction("N", "all", exponent),), predictions("adam", "adam").assumptions)


def looked(exponent, **work):
    looks = looks_at(PLACES, MOST.seeds, fewer_depths=True)
    return verify(*ASKED, planted(exponent), PLACES, MOST, looks=looks, **work)


def test_later_looks_add_seeds_and_depths_to_the_first_until_the_budget_ends():
    fixed = verify(*ASKED, planted(None), PLACES[1:3], THREE)
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
