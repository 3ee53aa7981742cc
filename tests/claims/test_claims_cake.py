"""Negative controls of the layer cake, the norm note and the paper: the opposite is planted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy
import torch

from deepnet_theory.claims.folder import claims
from deepnet_theory.claims.run import run
from deepnet_theory.spec.claim import Claim, Context
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared import stacks
from paper_checks.shared.bench import Lab

PROVED, SUPPORTED, REFUTED = Verdict.PROVED, Verdict.SUPPORTED, Verdict.REFUTED


@pytest.fixture(scope="module")
def known() -> dict[str, Claim]:
    torch.set_num_threads(1)
    return claims()


def found(claim: Claim) -> dict[str, Verdict]:
    result = run(claim, Context())
    assert not result.error, result.error
    return {f.about: f.verdict for f in result.findings}


def own_names(claim: Claim) -> dict[str, Any]:
    """The module-level names of the claim's own file."""
    check = claim.parts[0].check
    names: dict[str, Any] = check.__globals__  # type: ignore[attr-defined]
    return names


def planted(claim: Claim, monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """Replace a name in the claim's own file."""
    monkeypatch.setitem(own_names(claim), name, value)


def about(claim: Claim, words: str) -> str:
    (one,) = (r.about for r in claim.rulings() if words in r.about)
    return one


IDS = [
    "cake-xavier-forward",
    "cake-softmax-lemma",
    "cake-norm-sqrt-d",
    "cake-scalar-derivatives",
    "cake-parameter-norm",
    "cake-update-bound",
    "cake-random-sign",
    "cake-last-layer",
    "cake-constants",
    "cake-step-size",
    "cake-ln-jacobian",
    "cake-ffn-moment",
    "cake-ffn-input",
    "cake-ffn-parameters",
    "cake-index-ranges",
    "cake-relu-mask",
    "cake-attention-bound",
    "cake-sequence-length",
    "cake-beta-squared",
    "cake-variance-additive",
    "cake-jacobian-one",
    "cake-exponential-decay",
    "cake-query-key-gain",
    "cake-loss-gradient",
    "cake-xavier-label",
    "cake-dimension-free",
    "norms-unroll",
    "norms-growth",
    "norms-width",
    "norms-tradeoff",
    "norms-postnorm-decay",
    "norms-other-norms",
    "norms-encoder-layer",
    "deepnet-decoder-only",
    "deepnet-encoder-decoder",
    ("deepnet-encoder-decoder-bound"),
    "deepnet-sublayers",
    "deepnet-constant-update",
    "deepnet-adam",
    "deepnet-trains",
    "deepnet-vector-parameters",
    "deepnet-200-48",
]


def test_every_claim_is_there_with_a_finding_of_its_own(known: dict[str, Claim]) -> None:
    assert set(IDS) <= set(known)
    texts = [known[name].finding for name in IDS]
    assert len(set(texts)) == len(texts)
    assert all(len(text.split()) >= 20 for text in texts)


def test_assumed_stands_only_where_nothing_can_be_run(known: dict[str, Claim]) -> None:
    own = [c for n, c in known.items() if n.startswith(("cake-", "norms-", "deepnet-"))]
    assert [c.name for c in own if c.verdict() is Verdict.ASSUMED] == ["deepnet-200-48"]


def test_products_that_do_decay_with_r_squared_are_told_from_those_that_do_not(
    known: dict[str, Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = known["cake-random-sign"]
    own = own_names(claim)
    r = own["BRANCH"]

    def scalar(lab: Any, d: int) -> torch.Tensor:
        g = torch.Generator().manual_seed(d)
        noise = 0.01 * torch.randn(1000, generator=g, dtype=torch.float64)
        return own["count"](lab) / 2 * math.log((1 - r * r) / (1 + r * r)) + noise

    planted(claim, monkeypatch, "log_product", scalar)
    verdicts = found(claim)
    assert verdicts[about(claim, "magnitude of a product")] is SUPPORTED
    assert verdicts[about(claim, "exp(−K r²/d)")] is REFUTED


def test_gradients_that_do_decay_exponentially_are_seen(
    known: dict[str, Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = known["cake-exponential-decay"]
    own = own_names(claim)

    def signals(trial: Any) -> Any:
        g = np.random.default_rng(0)
        layers, rule = trial.depth["N"], trial.case.rule
        alpha, beta = rule.entry("encoder", "*").at(N=layers)
        r = beta**2 / alpha if beta < alpha else 0.3
        noise = np.exp(0.01 * g.standard_normal((2 * layers, trial.seeds)))
        rate = math.log((1 + r * r) / (1 - r * r)) / 2
        decay = np.exp(-rate * np.arange(2 * layers)[::-1, None]) * noise
        return own["Signals"](decay, decay)

    planted(claim, monkeypatch, "signals", signals)
    verdicts = found(claim)
    assert verdicts[about(claim, "at a fixed r")] is SUPPORTED
    assert verdicts[about(claim, "all the way down")] is SUPPORTED
    assert verdicts[about(claim, "sublayers alone")] is REFUTED


def test_an_update_that_grows_with_the_sequence_is_seen(
    known: dict[str, Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = known["cake-sequence-length"]

    def summed(_: Any, tokens: int, data: str, seeds: int, *__: Any) -> Any:
        g = np.random.default_rng(tokens)
        return np.exp(0.01 * g.standard_normal((seeds, tokens)))

    planted(claim, monkeypatch, "token_changes", summed)
    verdicts = found(claim)
    assert verdicts[about(claim, "grows with n")] is SUPPORTED
    assert verdicts[about(claim, "exponent −1/2")] is REFUTED


def test_aligned_branches_would_make_the_stream_grow_linearly(
    known: dict[str, Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = known["norms-growth"]

    def sums(trial: Any) -> list[tuple[Any, torch.Tensor, torch.Tensor]]:
        x = trial.inputs[0].double()
        sites = [r.site for r in trial.model.residuals()]
        return [(site, (t + 1) * x, x) for t, site in enumerate(sites)]

    planted(claim, monkeypatch, "residual_sums", sums)
    verdicts = found(claim)
    assert verdicts[about(claim, "grows as √t")] is REFUTED
    assert verdicts[about(claim, "goes as t^{−1/2}")] is REFUTED


@pytest.mark.slow
def test_one_learning_rate_for_all_parameters_is_not_balanced(
    known: dict[str, Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = known["deepnet-vector-parameters"]
    planted(claim, monkeypatch, "scaled_updates", stacks.model_updates)
    (mended,) = (p for p in claim.parts if p.check.__name__ == "mended")
    assert mended.check(Lab()).verdict is REFUTED


@pytest.mark.slow
def test_a_stuck_pre_ln_is_not_called_easier(
    known: dict[str, Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = known["norms-tradeoff"]
    own = own_names(claim)["model_constants"]
    planted(claim, monkeypatch, "model_constants", lambda *given: own(*given[:-1], "post-ln"))
    (easier,) = (p for p in claim.parts if "Pre-LN's perplexity" in p.about)
    assert easier.check(Lab()).verdict is REFUTED


def test_exchanged_index_ranges_disagree_with_the_derivative(known: dict[str, Claim]) -> None:
    agrees = own_names(known["cake-index-ranges"])["agrees"]
    assert agrees(2, 3, rows=2, columns=3) and not agrees(2, 3, rows=3, columns=2)
    assert not agrees(2, 3, rows=2, columns=2)
    assert agrees(3, 3, rows=3, columns=3)


def test_a_planted_derivative_is_caught(known: dict[str, Claim]) -> None:

    distance = own_names(known["cake-scalar-derivatives"])["distance"]
    x, v, w, a = sympy.symbols("x v w alpha", positive=True)
    f = (a + v * w) / sympy.sqrt(a**2 + v**2 * w**2) * x
    right = sympy.diff(f, v)
    assert distance(f, right, v) < 1e-20
    assert distance(f, right.subs(a - v * w, a + v * w), v) > 0.01 or distance(f, -right, v) > 1
    assert distance(f, w * x / a, v) > 0.01  # the leading order is not the derivative


def test_a_step_of_the_engine_that_fails_refutes_the_claim_that_calls_it(
    known: dict[str, Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cake-index-ranges", "cake-ffn-input", "cake-relu-mask", "cake-notation-slips"):
        planted(known[name], monkeypatch, "holds", lambda *_: False)
        part = next(p for p in known[name].parts if "holds" in p.check.__code__.co_names)
        assert part.check(Lab()).verdict is REFUTED


@pytest.mark.parametrize(
    ("name", "part", "own", "wrong"),
    [
        ("cake-notation-slips", "without its index", "attention", lambda y, v, w: v * w * w * y),
        ("cake-norm-sqrt-d", "‖x‖ = √d", "holds", lambda *_: False),
        ("cake-parameter-norm", "leading order", "over_printed", lambda: {"I = 1": 2}),
        ("cake-ln-jacobian", "no ε", "top_of", lambda _: 1),
        ("cake-ln-jacobian", "with ε", "torch_gap", lambda _: 1e-3),
        ("cake-ffn-jacobian", "∂z_i/∂w_jk", "gaps", lambda _: {"first-matrix": 1e-3}),
        ("cake-xavier-forward", "2/(n_in", "entry_square", lambda variance: variance),
        ("cake-relu-mask", "second moments", "masked", lambda _: 1),
        ("cake-beta-squared", "bounds the parameter", "squared", lambda: 0),
        ("cake-constants", "closure", "balance", lambda *_: 2),
        ("cake-small-parameters", "≪ 1", "size", lambda: 1 + 0 * sympy.Symbol("N")),
    ],
)
def test_an_error_planted_in_a_proof_is_refuted(
    known: dict[str, Claim],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    part: str,
    own: str,
    wrong: Any,
) -> None:
    claim = known[name]
    planted(claim, monkeypatch, own, wrong)
    (chosen,) = (p for p in claim.parts if part in p.about)
    assert chosen.check(Lab()).verdict is REFUTED


@pytest.mark.parametrize(
    "name",
    ["cake-constants", "cake-ffn-jacobian", "cake-norm-sqrt-d", "norms-direct-sum", "norms-unroll"],
)
def test_the_quick_ones_are_as_recorded(known: dict[str, Claim], name: str) -> None:
    assert run(known[name], Context()).as_recorded
