"""Negative controls: the checks of Su's claims see a planted opposite, and refute it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deepnet_theory.claims.folder import claims
from deepnet_theory.claims.run import run
from deepnet_theory.spec.claim import Claim, Context
from deepnet_theory.spec.verdict import Verdict

REFUTED, SUPPORTED, PROVED = Verdict.REFUTED, Verdict.SUPPORTED, Verdict.PROVED
CLAIMS = claims()
CONTEXT = Context()


@pytest.fixture(autouse=True)
def shared_code_is_the_repositorys() -> None:
    """Other tests read folders of their own, and with them another ``paper_checks``."""
    CLAIMS.update(claims())


def bench() -> Any:
    """The bench of a quick run."""
    from paper_checks.shared.bench import Lab

    return Lab()


def verdicts(name: str) -> dict[str, Verdict]:
    """What the check finds now, with whatever was planted."""
    found = run(CLAIMS[name], CONTEXT)
    assert not found.error, found.error
    return {f.about: f.verdict for f in found.findings}


def names_of(claim: Claim) -> dict[str, Any]:
    """The module-level names that the check of a claim reads."""
    check = claim.parts[0].check
    found: dict[str, Any] = check.__globals__  # type: ignore[attr-defined]
    return found


def test_every_row_of_the_ledger_has_a_file() -> None:
    rows = (
        "increment-sgd increment-depth lambda-argmin xavier-orthogonal norm-preserving probe "
        "homogeneous ffn-gradient attention-gradient query-key averaging ln-scale balance-sgd "
        "alternatives adam lamb table identity prenorm prenorm-needed warmup width rezero "
        "res-post-norm branchnorm root-cause unit-gradient escape implicit-warmup adafactor "
        "single-head rezero-1-over-n"
    )
    wanted = {f"su-{row}" for row in rows.split()} | {"retold-k-parameters", "retold-roles"}
    assert wanted <= set(CLAIMS)
    assert all(CLAIMS[name].finding != "pending" for name in wanted)


def test_a_wrong_closed_form_of_the_magnitude(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared import symbolic

    steps = symbolic.closed_form()
    planted = tuple(
        replace(s, rhs=s.rhs * 2) if s.name == "magnitude" else s for s in steps
    )  # fmt: skip
    monkeypatch.setattr(symbolic, "closed_form", lambda: planted)
    assert verdicts("su-lambda-argmin")["unique, with a closed form"] is REFUTED


def test_matrices_of_another_gain_are_not_called_xavier(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    draw = torch.Tensor.normal_

    def wide(self: torch.Tensor, mean: float, std: float, **rest: Any) -> torch.Tensor:
        return draw(self, mean, 1.1 * std, **rest)

    monkeypatch.setattr(torch.Tensor, "normal_", wide)
    found = verdicts("su-xavier-orthogonal")
    law = next(about for about in found if about.startswith("drawn"))
    assert found[law] is REFUTED


def test_orthogonal_matrices_would_have_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def orthogonal(
        self: torch.Tensor, mean: float, std: float, generator: torch.Generator
    ) -> torch.Tensor:
        gain = std * ((self.shape[-1] + self.shape[-2]) / 2) ** 0.5
        tall = torch.randn(*sorted(self.shape[-2:], reverse=True), dtype=self.dtype)
        q = torch.linalg.qr(tall)[0]
        self.copy_(gain * (q if q.shape == self.shape[-2:] else q.mT))
        return self

    monkeypatch.setattr(torch.Tensor, "normal_", orthogonal)
    assert verdicts("su-xavier-orthogonal")["a square Xavier matrix is close to orthogonal"] is (
        SUPPORTED
    )


def test_a_step_of_twice_the_size_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    own = names_of(CLAIMS["su-increment-sgd"])
    step: Callable[..., None] = own["step"]
    monkeypatch.setitem(own, "step", lambda n, g, eta: step(n, g, 2 * eta))
    found = verdicts("su-increment-sgd")
    assert found["−η‖∇L‖² for SGD"] is REFUTED and found["−η‖∇L‖₁ for Adam"] is REFUTED


@pytest.mark.slow
def test_a_probe_that_forgets_a_factor_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared.stacks import Gradient

    monkeypatch.setattr(Gradient, "probe", lambda self: (self.g * self.theta).flatten(1).sum(1) * 2)
    assert verdicts("su-probe")["a central difference in λ on built stacks agrees"] is REFUTED


def test_tokens_that_are_secretly_correlated_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepnet_theory.numeric.stacks import trial

    draw = trial.gaussian_tokens
    monkeypatch.setattr(trial, "gaussian_tokens", lambda shape, rho, g: draw(shape, 0.5, g))
    found = verdicts("su-averaging")
    law = next(about for about in found if "(1−ρ)²/d" in about)
    assert found[law] is REFUTED


def test_lambs_missing_factor_is_what_refutes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1/√numel planted in the written formula the refuted row turns."""
    from deepnet_theory.numeric.stepping.update import update
    from deepnet_theory.spec.expression import UPDATE

    own = names_of(CLAIMS["su-lamb"])
    monkeypatch.setitem(own, "WRITTEN", own["WRITTEN"] + "/sqrt(numel(theta))")
    import torch

    g, theta = torch.randn(2, 8, 8), torch.randn(2, 8, 8)
    step = update(UPDATE.parse(own["WRITTEN"]), 1.0, g, theta)
    assert torch.allclose(step.flatten(1).norm(dim=1), theta.flatten(1).norm(dim=1))
    assert torch.allclose(own["lamb"](theta, g), step, atol=1e-4)


@pytest.mark.slow
def test_post_ln_does_not_forget_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(names_of(CLAIMS["su-res-post-norm"]), "PLACE", "post-ln")
    found = verdicts("su-res-post-norm")
    assert found["λ does not change the branch"] is REFUTED
    # λ/α = 1/(2N) balances Adam in post-LN too, so that row rightly stands
    assert found["λ = 1 and α = 2N keep Adam's update constant in depth"] is SUPPORTED


@pytest.mark.slow
def test_a_choice_off_the_balanced_curve_does_learn_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from paper_checks.shared.stacks import Net

    # λ/α = 1/(2N), Adam's balance
    choices = names_of(CLAIMS["su-implicit-warmup"])["OTHERS"]
    monkeypatch.setitem(choices, "lambda = 1", Net("2*N", "1"))
    found = verdicts("su-implicit-warmup")
    assert next(v for about, v in found.items() if "falls with depth" in about) is SUPPORTED


PROVED_RULES = {
    "su-table": "the six constants follow from balance and closure",
    "su-prenorm": "α = 1 gives λ = (2N)^{−1/2}, (2N)^{−1}, (2N)^{−1/2} for SGD, Adam, LAMB",
    "su-adafactor": "degrees (0, 1) above its floor: LAMB's, and its rule",
}


@pytest.mark.parametrize("name", PROVED_RULES)
def test_an_engine_that_takes_adam_and_lamb_for_sgd_is_not_its_own_witness(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from deepnet_theory.spec.selection import Selection
    from paper_checks.shared import symbolic

    derive = symbolic.derive

    def planted(selection: Selection) -> Any:
        return derive(replace(selection, optimizer="sgd"))

    monkeypatch.setattr(symbolic, "derive", planted)
    part = next(p for p in CLAIMS[name].parts if p.about == PROVED_RULES[name])
    assert part.check(bench()).verdict is REFUTED


def test_an_engine_with_another_relative_update_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared import symbolic

    compare = symbolic.compare_closures

    def planted(selection: Any) -> Any:
        found = compare(selection)
        swapped = {**found.consequences, "symmetric": found.consequences["unit-init"]}
        return replace(found, consequences=swapped)

    monkeypatch.setattr(symbolic, "compare_closures", planted)
    assert CLAIMS["su-alternatives"].parts[0].check(bench()).verdict is REFUTED


def test_seeds_in_lots_are_the_lots_one_after_another() -> None:
    from paper_checks.shared.stacks import PLAIN, Pass, lots, per_depth

    s = bench().settings(width=16, tokens=4, seeds=4)
    parts = [per_depth(PLAIN, (1, 2), lot, Pass.squared) for lot in lots(s, 2)]
    both = per_depth(PLAIN, (1, 2), s, Pass.squared, at_once=2)
    assert both.tolist() == [row for part in parts for row in part.tolist()]


def test_both_steps_of_one_backward_pass_are_the_laboratorys() -> None:
    from paper_checks.shared.stacks import Net, model_updates

    own = names_of(CLAIMS["su-query-key"])
    net, s = Net("(2*N)**(1/4)", "(2*N)**(-1/4)"), bench().settings(seeds=2)
    share, _ = own["both"](net, (4,), s)
    scores = model_updates(net, (4,), s, lambda d: d.name in ("query", "key"))
    others = model_updates(net, (4,), s, lambda d: d.name not in ("query", "key"))
    assert share == pytest.approx(scores / others, rel=0.01)


def test_a_multiplied_step_that_rounding_would_lose_is_refused() -> None:
    from paper_checks.shared.multipliers import scaled_updates
    from paper_checks.shared.stacks import Net, settings

    with pytest.raises(ValueError, match="float64"):
        scaled_updates(Net(), (4,), settings(CONTEXT, step="all"))


@pytest.mark.slow
def test_swapped_rules_fail_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared import rules

    sgd, adam = rules.PUBLISHED["sgd"], rules.PUBLISHED["adam"]
    monkeypatch.setitem(rules.PUBLISHED, "sgd", adam)
    monkeypatch.setitem(rules.PUBLISHED, "adam", sgd)
    found = verdicts("su-table")
    assert found["the six constants follow from balance and closure"] is REFUTED
    assert found["each optimizer's update is constant in depth under its own rule"] is REFUTED


@pytest.mark.slow
def test_a_stack_without_a_rule_is_not_near_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared import rules

    monkeypatch.setitem(rules.PUBLISHED, "lamb", ("1", "1"))
    found = verdicts("su-identity")
    weight = next(about for about in found if about.startswith("the branch weight"))
    assert found[weight] is REFUTED


def test_the_exponent_of_a_wrong_rule_is_refuted() -> None:
    """SGD's rule under Adam grows as N^{1/2}: neither 0 nor 1 may be SUPPORTED."""
    from paper_checks.shared.fitting import settled
    from paper_checks.shared.stacks import Net, model_updates

    net, at = Net("(2*N)**(1/4)", "(2*N)**(-1/4)", "adam"), (8, 24, 72)
    found = settled(at, model_updates(net, at, bench().settings()))
    judged = [bench().exponent(found, e).verdict for e in (0.0, 0.5, 1.0)]
    assert judged[0] is REFUTED and judged[2] is REFUTED and judged[1] is not REFUTED
