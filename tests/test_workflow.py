"""The Python interface: derive → verify → export → build, and what it refuses."""

import inspect
import textwrap
import warnings
from functools import partial

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory.cli.deriving import selection_of
from deepnet_theory.definitions.outcome import UnstableWarning, Verdict
from deepnet_theory.definitions.selection import parse_depth, stack

N = sp.Symbol("N", positive=True)


@pytest.fixture(scope="module")
def derivation():
    return dt.derive(optimizer="lamb")


def test_an_exit_code_says_the_verdict():
    codes = {verdict: verdict.exit_code for verdict in Verdict if verdict.exit_code}
    assert codes == {Verdict.REFUTED: 1, Verdict.UNDECIDED: 3, Verdict.ASSUMED: 3}


def test_multipliers_are_exported_for_the_derived_rule_alone(derivation):
    attention = dt.export(derivation, depth=100).parts[0].sublayers[0]
    assert attention.parameters["output"].rate == 1.0
    assert attention.parameters == {
        p.place.parameter: p.at(N=100)
        for p in derivation.parameters
        if p.place.sublayer == "attention"
    }
    own = dt.own_rule(derivation.selection, "1", "1")
    assert dt.export(derivation, depth=100, rule=own).parts[0].sublayers[0].parameters == {}


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_depth_reads_the_same_in_every_form(n, m):
    one, two = stack("encoder"), stack("encoder-decoder")
    assert parse_depth(n, one) == parse_depth(str(n), one) == parse_depth([n], one) == {"N": n}
    expected = {"N": n, "M": m}
    for form in (f"{n},{m}", f" {n} , {m} ", (n, m), [n, m], expected):
        assert parse_depth(form, two) == expected


@pytest.mark.parametrize(
    "bad", [0, -1, 2.5, True, None, "", "x", "1e3", "٣", "8,", 10**7, [], {"M": 3}, [1, 2]]
)
def test_what_is_no_depth(bad):
    with pytest.raises(dt.InputError, match="whole numbers of layers"):
        parse_depth(bad, stack("encoder"))


SMALLER = {  # what the tour measures, and the least of it that is measured
    "[8, 10_000]": "[2, 4], **tiny",
    "[8, 16, 32, 64, 128]": "[2, 4], **tiny",
    "seeds=4": "depths=[2, 4], **tiny",
    "[6, 12, 24]": "[2, 4], seeds=2",
}


@pytest.mark.notebooks
def test_the_code_of_the_tour_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = (inspect.getdoc(dt) or "").splitlines()
    code = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
    for asked, less in SMALLER.items():
        assert code.count(asked) == 1
        code = code.replace(asked, less)
    tiny = {"width": 8, "heads": 1, "tokens": 4, "seeds": 2, "draws": 1}
    exec(code, found := {"make_model": partial(GPT, vocab=256), "tiny": tiny})
    assert found["model"] is not None


def test_a_name_or_an_update_stands_for_a_selection():
    named, typed = dt.derive("adam"), dt.derive("-eta*sign(g)")
    assert named.selection == dt.derive(optimizer="adam").selection
    assert typed.selection.update == "-eta*sign(g)" and typed.rule.entries == named.rule.entries
    assert dt.derive("adam", placement="pre-ln").selection.placement == "pre-ln"
    assert dt.export("adam", 12) == dt.export(named, 12) == dt.export(named.selection, 12)
    assert dt.derive("Adam", placement="Post-LN", norm="LAYER").selection == named.selection
    for subject in ("adam", named, named.selection):  # as what measures takes them
        assert selection_of(subject, {}) == named.selection


def test_python_exports_the_complete_rule_and_warns_of_an_unstable_one():
    named = dt.derive("adam", closure="symmetric")
    with pytest.warns(UnstableWarning, match="the recommended rule is the default"):
        unstable = dt.export(named, 4, width=16, heads=2)
    assert unstable.parts[0].sublayers[0].alpha == 8**0.5
    assert dt.derive("adam").published.beta == named.rule.beta
    assert dt.derive("adam").rule.beta == dt.derive("adam", closure="complete").rule.beta
    with pytest.warns(UnstableWarning, match="rho scales as"):
        dt.build(unstable)
    with warnings.catch_warnings(action="error", category=UnstableWarning):
        for given in ("adam", dt.derive("adam")):
            found = dt.export(given, 4, width=16, heads=2)
            assert dt.build(found).constants.parts[0].sublayers[0].alpha == 8.0


def test_a_rule_of_ones_own_in_every_form(derivation):
    expected = dt.own_rule(derivation.selection, "sqrt(2)*sqrt(N)", "1/2")
    for selection in (derivation, "lamb"):
        assert dt.own_rule(selection, sp.sqrt(2 * N), sp.Rational(1, 2)) == expected
    ones = dt.own_rule(derivation, 1, 1.0)
    assert ones.entry("encoder", "ffn").at(N=7) == (1.0, 1.0)


ASKED = "exactly one of optimizer, a name such as adam, and update"
# a call that is not meant, and what its one sentence says
WRONG_CALLS = [
    (lambda d: dt.derive(), ASKED),
    *((lambda d, call=call: call(), ASKED)
      for call in (dt.verify, dt.predict_update, dt.transfer, dt.export)),
    (lambda d: dt.export("adam"), "depth"),
    (lambda d: dt.export(d, 8, widht=8), "no 'widht'; valid are: width"),
    (lambda d: dt.verify(d, [2, 4], widht=8), "no 'widht'; valid are: width"),
    (lambda d: dt.verify(7), "7 is no selection"),
    (lambda d: dt.transfer("adam"), "the rates"),
    (lambda d: dt.derive("adan"), "unknown optimizer 'adan'; valid are: adafactor.*did you mean"),
    (lambda d: dt.derive(optimiser="sgd"), "no 'optimiser'; valid are: optimizer, update"),
    (lambda d: dt.derive("adam", clousure="complete"), "did you mean 'closure'"),
    (lambda d: dt.derive(7), "7 is no selection: give the name of an optimizer"),
    (lambda d: dt.derive("adam", optimizer="sgd"), "optimizer is given twice: 'adam' and 'sgd'"),
    (lambda d: dt.derive(d.selection, optimizer="sgd"), "not both"),
    (lambda d: dt.own_rule(d, None, 1), "None"),
    (lambda d: dt.own_rule(d, 1, float("nan")), "nan"),
    (lambda d: dt.own_rule(d.selection, "1", "1", decoder_alpha="N"), "one part"),
    (lambda d: dt.build("no-such-constants.json"), "no-such-constants.json"),
    (lambda d: dt.build({"alpha": 1}), "give Constants, as export"),
    (lambda d: dt.train("no-such-constants.json"), "no-such-constants.json"),
    (lambda d: dt.train("c.json", step=3), "unknown keyword 'step'; valid are: processes, "),
]  # fmt: skip


@pytest.mark.parametrize(("call", "says"), WRONG_CALLS)
def test_a_call_that_is_not_meant_ends_in_one_sentence(derivation, call, says):
    with pytest.raises(dt.InputError, match=says) as refused:
        call(derivation)
    said = str(refused.value)
    assert "\n" not in said and "--" not in said  # the library speaks Python, a shell options
