"""Verify from end to end on small stacks: verdicts, partial results, and going on from them."""

import json
import math
import pickle
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from published_rules import SMALL, SU, depths, predicted, predictions, rule

import deepnet_theory as dt
from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.model_update import ModelUpdate
from deepnet_theory.numeric.one_sublayer import predict_shares
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.verify import Record, plan_exponents, verify
from deepnet_theory.processes import Cache, ThisProcess
from deepnet_theory.spec.assumption import Assumption, assumptions
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.results.prediction import Prediction, Predictions
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict

ADAM = (Selection(optimizer="adam"), rule("adam"), predictions("adam", "adam"))
LAB = Settings(width=16, heads=2, tokens=8, seeds=8, draws=2)
DEEP = depths(4, 8, 16)
TINY = {"width": 8, "heads": 2, "tokens": 4, "seeds": 2}


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """What several tests ask of the same stacks."""
    return Cache(tmp_path_factory.mktemp("measured"))


@pytest.mark.parametrize("optimizer", ["adam", pytest.param("lamb", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(SU))
def test_cross_table_of_rules_and_optimizers(optimizer, name, measured):
    selection = Selection(optimizer=optimizer)
    found = verify(selection, rule(name), predictions(optimizer, name), DEEP, LAB, cache=measured)
    (exponent,) = found.exponents
    assert abs(exponent.estimate - float(predicted(optimizer, name))) < 0.08
    # the other optimizers' predictions, which differ, are never supported
    for other in SU:
        wrong = predicted(optimizer, other)
        if wrong != predicted(optimizer, name):
            planted = Predictions((Prediction("N", "all", wrong),))
            judged = verify(selection, rule(name), planted, DEEP, LAB, cache=measured)
            assert judged.verdict is Verdict.REFUTED


@pytest.mark.parametrize("layer", ["attention-qk-norm", "attention-qk-norm+ffn", "ffn-swiglu"])
def test_every_kind_of_sublayer_is_built_and_measured(layer):
    found = dt.verify(Selection(optimizer="adam", layer=layer), [1, 2], **TINY)
    names = {"query", "key", "value", "output"} if "attention" in layer else {"gate", "up", "down"}
    assert names <= {name for share in found.shares for name in share.name.split()}
    assert all(point.mean > 0 for point in found.points)


def test_constant_is_another_question_than_the_verdict(adam, measured):
    """Half of Adam's exponents leave half a power of the depth, which is what is predicted."""
    half = own_rule(("encoder",), "(2*N)**(1/4)", "(8*N)**(-1/4)")
    growing = Predictions((Prediction("N", "all", Fraction(1, 2)),))
    found = verify(adam, half, growing, DEEP, LAB, cache=measured)
    assert found.verdict is Verdict.SUPPORTED
    assert not found.constant and json.loads(found.to_json())["constant"] is False
    assert found.trend.startswith("GROWS as N^0.") and found.trend.endswith("as predicted")
    wrong = verify(adam, half, predictions("adam", "adam"), DEEP, LAB, cache=measured)
    assert wrong.trend.startswith("GROWS as N^0.") and "N^0.00 was predicted" in wrong.trend
    own = verify(*ADAM, DEEP, LAB, cache=measured)
    assert own.verdict is Verdict.SUPPORTED
    assert own.constant and own.trend.startswith("is CONSTANT in N, exponent ")


def test_shares_of_the_deepest_point_stand_beside_what_is_predicted_of_them(adam, cache):
    asked = (*ADAM, depths(2, 8), SMALL)
    found = verify(*asked, shares=True, cache=cache)
    data = json.loads(found.to_json())["shares"]
    deepest = Case(adam, rule("adam"), {"N": 8}, SMALL)
    assert [(s["part"], s["name"]) for s in data] == list(predict_shares(deepest))
    for share in data:
        for size in ("", "predicted_", "ratio_"):
            middle = share["mean" if not size else size[:-1]]
            assert share[f"{size}low"] < middle < share[f"{size}high"]
    (fc2,) = (s for s in data if s["name"] == "ffn fc2")
    assert fc2["ratio"] == pytest.approx(1, rel=0.1)
    assert verify(*asked, shares=True, cache=cache).shares == found.shares


def test_a_share_that_moves_nothing_has_no_ratio():
    """LAMB's step is as large as the weights, and a bias begins at 0."""
    lamb = Selection(optimizer="lamb")
    lab = replace(SMALL, step="all", draws=1, seeds=2)
    asked = (lamb, rule("lamb"), predictions("lamb", "lamb"), depths(1, 2), lab)
    shares = {s.name: s for s in verify(*asked, shares=True).shares}
    bias = shares["ffn fc2_bias"]
    assert (bias.mean, bias.predicted, bias.ratio, bias.ratio_high) == (0, 0, None, None)
    assert shares["ffn gain"].ratio == pytest.approx(1, rel=0.1)


def test_real_optimizer_is_stepped_at_both_ends():
    found = verify(*ADAM, depths(2, 4, 6), SMALL)
    rows = found.checks["reference"]
    assert [r["depth"] for r in rows] == [{"N": 2}, {"N": 6}]
    assert all(r["difference"] < 0.01 for r in rows)
    # planted: an expression that is not the optimizer's is seen
    planted = Selection(optimizer="adam")
    expression = replace(planted.the_optimizer, update="-eta*g/rms(g)")
    vars(planted)["the_optimizer"] = expression
    wrong = verify(planted, rule("adam"), predictions("adam", "adam"), depths(2, 4), SMALL)
    assert all(r["difference"] > 0.01 for r in wrong.checks["reference"])


def test_assumptions_are_measured_beside(adam):
    chosen = [assumptions()[n] for n in ("near-identity", "unit-activations", "equal-gains")]
    chosen.append(Assumption("planted", "‖x‖ halves", "activation_size", slope=-1.0))
    found = verify(adam, rule("adam"), predictions("adam", "adam", chosen), DEEP, LAB)
    verdicts = {a.name: a.verdict for a in found.assumptions}
    assert verdicts["near-identity"] is Verdict.SUPPORTED
    assert verdicts["unit-activations"] is Verdict.SUPPORTED
    assert verdicts["equal-gains"] is Verdict.ASSUMED
    assert verdicts["planted"] is Verdict.REFUTED


def test_interrupt_leaves_a_partial_result_that_the_next_call_completes(adam, cache):
    asked = predictions("adam", "adam", [assumptions()["near-identity"]])
    given = (adam, rule("adam"), asked, depths(1, 2, 3), SMALL)
    whole = verify(*given, shares=True)

    def interrupt(done, total, what):
        assert 0 <= done <= total
        if what.startswith("assumptions at depth 2"):
            raise KeyboardInterrupt

    part = verify(*given, shares=True, progress=interrupt, cache=cache)
    assert len(part.points) == 2 and part.stopped and part.shares == ()
    assert (part.verdict, part.exit_code) == (Verdict.UNDECIDED, 130)
    assert part.exponents[0].verdict is Verdict.UNDECIDED
    assert any(w.startswith("interrupted: 2 of 3 depths") for w in part.warnings)
    assert json.loads(part.to_json())["complete"] is False and not part.constant
    assert json.loads(whole.to_json())["complete"] is True
    kept = len(list(cache.files()))
    resumed = verify(*given, shares=True, cache=cache)
    assert cache.taken == kept > 2
    for name in ("points", "exponents", "assumptions", "checks", "shares"):
        assert getattr(resumed, name) == getattr(whole, name), name
    nothing = verify(*given, progress=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert (nothing.verdict, nothing.points) == (Verdict.UNDECIDED, ())
    json.loads(nothing.to_json())


def test_another_call_takes_the_depths_that_are_there_and_measures_the_rest(cache):
    shallow = verify(*ADAM, depths(2, 4), SMALL, cache=cache)
    seen, points = [], []
    deeper = verify(
        *ADAM, depths(2, 4, 6), SMALL, cache=cache,
        progress=lambda done, total, what: seen.append(what), watch=points.append,
    )  # fmt: skip
    assert deeper.points[:2] == shallow.points and deeper.points[2] not in shallow.points
    # what is predicted of a depth, its draws, and the real optimizer's step at the first one
    assert cache.taken == 2 * (1 + SMALL.draws) + 1
    assert seen[-1] == "done"
    assert tuple(points) == deeper.points


class Elsewhere(ThisProcess):
    """Work and result travel by pickle, as to another process."""

    def submit(self, fn, /, *given, **more):
        done = super().submit(pickle.loads(pickle.dumps(partial(fn, *given, **more))))
        again = Future()
        again.set_result(pickle.loads(pickle.dumps(done.result())))
        return again


ELSEWHERE = [{"executor": Elsewhere()}, pytest.param({"processes": 2}, marks=pytest.mark.slow)]


@pytest.mark.parametrize("where", ELSEWHERE, ids=lambda where: next(iter(where)))
def test_work_elsewhere_changes_nothing_in_the_result(adam, where):
    asked = predictions("adam", "adam", [assumptions()["near-identity"]])
    given = (adam, rule("adam"), asked, depths(1, 2, 3), SMALL)
    alone, seen, points = verify(*given), [], []
    shared = verify(
        *given, **where, progress=lambda done, total, what: seen.append(done / total),
        watch=points.append,
    )  # fmt: skip
    for name in ("points", "exponents", "assumptions"):
        assert getattr(shared, name) == getattr(alone, name), name
    assert json.dumps(shared.checks) == json.dumps(alone.checks)  # in the same order, too
    assert sorted(points, key=lambda p: p.depth["N"]) == list(alone.points)
    assert seen == sorted(seen) and seen[-1] == 1


def test_the_step_of_a_depth_depends_on_the_settings_alone(adam):
    """Under α = β = 1 the response grows fast, so that a guess from other depths would show."""
    plain = own_rule(("encoder",), "1", "1")
    asked = predictions("adam", "adam")
    lab = replace(SMALL, width=32, seeds=2)
    whole = verify(adam, plain, asked, depths(4, 8, 16), lab)
    fewer = verify(adam, plain, asked, depths(4, 16), lab)
    assert fewer.points[-1] == whole.points[-1]
    assert fewer.checks["steps"][-1] == whole.checks["steps"][-1]


class Broken(ThisProcess):
    """An executor of which nothing comes."""

    def __init__(self, error):
        self.error = error

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_exception(self.error)
        return future


@pytest.mark.parametrize(
    "error",
    [
        BrokenProcessPool("x"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_where_nothing_was_measured_one_sentence_says_why(error):
    with pytest.raises(InputError, match="memory") as said:
        verify(*ADAM, depths(2, 4), SMALL, executor=Broken(error))
    assert "\n" not in str(said.value)
    with pytest.raises(RuntimeError, match="another"):
        verify(*ADAM, depths(2, 4), SMALL, executor=Broken(RuntimeError("another")))


def test_nan_is_a_finding_and_never_a_pass():
    selection = Selection(optimizer="adam", placement="pre-ln")
    huge = own_rule(("encoder",), "1", "10**15")
    found = verify(selection, huge, predictions("adam", "adam"), depths(2, 4), SMALL)
    assert found.verdict is Verdict.UNDECIDED
    assert any("first in layer 1 of the encoder" in w for w in found.warnings)
    assert math.isnan(found.points[0].mean)
    assert json.loads(found.to_json())["points"][0]["mean"] is None


def test_rule_and_depths_are_refused_before_measuring(adam):
    asked = predictions("adam", "adam")
    with pytest.raises(InputError, match="positive"):
        verify(adam, own_rule(("encoder",), "N - 4", "1"), asked, depths(2, 4), SMALL)
    with pytest.raises(InputError, match="give no exponent"):
        verify(adam, rule("adam"), asked, depths(8), SMALL)
    unknown = predictions("adam", "adam", [Assumption("x", "y", "no_such_thing", slope=0.0)])
    with pytest.raises(InputError, match="no_such_thing"):
        verify(adam, rule("adam"), unknown, depths(2, 4), SMALL)


PAIR = Selection(optimizer="adam", stack="encoder-decoder")


def rows(n, m):
    return Predictions(
        (Prediction("N", "all", n, (("sgd", n + 1),)), Prediction("M", "all", m, (("sgd", m),)))
    )


def pairs(*numbers):
    return [{"N": n, "M": m} for n, m in numbers]


def test_plans_hold_the_other_depth_fixed():
    one = plan_exponents(PAIR, rows(Fraction(0), Fraction(1)), pairs((8, 6), (16, 6)))
    assert [p.prediction.variable for p in one] == ["N"]
    both = plan_exponents(PAIR, rows(Fraction(0), Fraction(1)), pairs((8, 6), (16, 6), (8, 12)))
    assert [p.prediction.variable for p in both] == ["N", "M"]
    (diagonal,) = plan_exponents(PAIR, rows(Fraction(0), Fraction(1)), pairs((8, 4), (16, 8)))
    assert diagonal.total
    assert diagonal.prediction.exponent == 1
    assert dict(diagonal.prediction.rivals) == {"sgd": Fraction(2)}
    with pytest.raises(InputError, match="give no exponent"):
        plan_exponents(PAIR, rows(Fraction(0), Fraction(1)), pairs((8, 4), (16, 16)))


def test_encoder_decoder_with_shares():
    own = own_rule(("encoder", "decoder"), "1", "1/2")
    asked = Predictions(
        tuple(
            Prediction(v, share, None)
            for v in ("N", "M")
            for share in ("all", "encoder", "decoder", "value")
        )
    )
    found = verify(PAIR, own, asked, pairs((1, 1), (2, 1), (1, 2)), SMALL)
    assert [(e.variable, e.share) for e in found.exponents][:2] == [("N", "all"), ("N", "encoder")]
    assert all(math.isfinite(e.estimate) for e in found.exponents)
    assert found.verdict is Verdict.UNDECIDED  # nothing was predicted


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SU))
def test_own_rules_at_the_default_settings(name):
    found = verify(
        Selection(optimizer=name), rule(name), predictions(name, name),
        depths(16, 32, 64, 128), Settings(),
    )  # fmt: skip
    assert found.verdict is Verdict.SUPPORTED
    assert abs(found.exponents[0].estimate) < 0.05


@pytest.mark.slow
def test_a_thousand_layers():
    found = verify(*ADAM, depths(250, 500, 1000), replace(LAB, seeds=2))
    assert abs(found.exponents[0].estimate) < 0.05
    assert all(s["second_order"] < 0.01 for s in found.checks["steps"])


PAIRS = [{"N": 8, "M": 8}, {"N": 8, "M": 16}, {"N": 16, "M": 8}, {"N": 128, "M": 8}]


def _record(depths):
    record = Record()
    for depth in depths:
        key = f"{depth['N']}x{depth['M']}"
        record.updates[key] = ModelUpdate(depth, 1.0, (1.0,), 0.0, 0.0, (), (), (), ())
        record.references[key] = {"depth": depth}
        for name in ("b", "a") if depth["N"] == 8 else ("a", "b"):
            record.samples.setdefault(name, {})[key] = [1.0]
    return record


def test_the_order_in_which_results_come_is_not_seen():
    forward, backward = _record(PAIRS).checks(), _record(PAIRS[::-1]).checks()
    assert json.dumps(forward) == json.dumps(backward)
    assert [step["depth"] for step in forward["steps"]] == PAIRS  # as numbers, not as text
    assert list(forward["samples"]["a"]) == ["8x8", "8x16", "16x8", "128x8"]
