"""‖xW‖ ≈ λ‖x‖."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import RETOLD
from paper_checks.shared.verdicts import MARGIN, numbers, seen, within

if TYPE_CHECKING:
    from torch import Tensor

    from paper_checks.shared.laboratory import Trial

ARGMIN, EVERY, MEAN, LESS = (
    "with λ the argmin",
    "for every x",
    "with gain·√(2m/(d+m)) in place of λ, for the x that a stack presents at initialisation",
    "the factor of a square matrix is the argmin's λ(W) over √2",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Inputs and outputs of every linear map of real stacks, at several depths."""
    import torch

    from paper_checks.shared.laboratory import t_interval
    from paper_checks.shared.stacks import Net, settings

    rows: list[dict[str, Any]] = []
    laws, argmins, most, least = {}, {}, 0.0, 1.0
    wide = {"text, width 128": {"width": 128, "seeds": 4}} if context.full else {}
    conditions = {"text": {}, "independent tokens": {"data": "gaussian:0"}, **wide}
    for depth in context.pick((8, 32), (8, 32, 128)):
        for label, other in conditions.items():
            for alpha, beta in (("1", "1"), ("(2*N)**(1/4)", "(2*N)**(-1/4)")):
                given = settings(context, **{"width": 64, "seeds": 16, **other})
                trial = Net(alpha, beta).trial(depth, given)
                for name, both in _factors(trial).items():
                    argmin, law = (t_interval(column.numpy()) for column in both.T)
                    key = f"{name}, {depth} layers, {label}, beta = {beta}"
                    laws[key] = law
                    if name not in ("fc1", "fc2"):
                        argmins[key] = argmin
                    rows.append({"of": key, "to argmin": numbers(argmin), "to law": numbers(law)})
                value = next(p for p, d in trial.parameters() if d.name == "value")
                gain = trial.case.rule.entries[0].at(N=depth)[1]
                stretch = torch.linalg.svdvals(value / gain)
                most, least = max(most, float(stretch.max())), min(least, float(stretch.min()))
    what, half = "‖xW‖/‖x‖ over {}, mean over layers and seeds", 0.5**0.5
    return (
        within(ARGMIN, argmins, 1 - MARGIN, 1 + MARGIN, what.format("λ(W)"), stacks=rows),
        seen(
            EVERY,
            least > 1 - MARGIN and most < 1 + MARGIN,
            f"along its first singular vector ‖xW‖ is {most:.2f} gain·‖x‖, along its last "
            f"{least:.1g}",
        ),
        within(MEAN, laws, 1 - MARGIN, 1 + MARGIN, what.format("the law"), stacks=rows),
        within(LESS, argmins, half * (1 - MARGIN), half * (1 + MARGIN), what.format("λ(W)")),
    )


def _factors(trial: Trial) -> dict[str, Tensor]:
    """The rms of ‖xW‖/‖x‖ over the argmin's λ and over the law, of every layer and seed."""
    import torch
    from torch import nn

    from deepnet_theory.runtime.linear import Linear

    found: dict[str, list[Tensor]] = {}

    def see(module: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        w, d = module.weight, module.descriptions["weight"]  # w is (k, m, d)
        argmin = (w @ w.mT).flatten(1).norm(dim=1) / w.flatten(1).norm(dim=1)
        law = d.gain * (2 * d.fan_out / (d.fan_in + d.fan_out)) ** 0.5
        factor = (out.norm(dim=-1) / given[0].norm(dim=-1)).square().flatten(1).mean(1).sqrt()
        both = torch.stack([factor / argmin, factor / law], dim=1)
        found.setdefault(d.name, []).append(both)

    linear = [m for m in trial.model.parts.modules() if isinstance(m, Linear)]
    handles = [m.register_forward_hook(see) for m in linear]
    with torch.no_grad():
        trial.output()
    for handle in handles:
        handle.remove()
    return {name: torch.cat(rows) for name, rows in found.items()}


CLAIM = Claim(
    name="su-norm-preserving",
    source=f"{RETOLD}, §2 Magnitude analysis, grey box",
    statement="‖xW‖ = λ‖xU‖ ≈ λ‖x‖: λ is the factor by which W changes the length of a vector.",
    conditions="all six matrices of post-LN stacks at initialisation, 8 to 128 layers, text "
    "and Gaussian tokens",
    recorded=(
        Ruling(ARGMIN, Verdict.REFUTED),
        Ruling(EVERY, Verdict.REFUTED),
        Ruling(MEAN, Verdict.SUPPORTED, corrected=True),
        Ruling(LESS, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "At initialisation every matrix of a stack multiplies the length of its input by "
        "gain·√(2m/(d+m)), within 2 % on average at any depth, kind and data: by the gain for "
        "square matrices, by 1.26 gain for d → 4d and 0.63 gain for 4d → d. This is a statement "
        "about inputs that do not depend on W; for others the factor runs from 0 to 2 gain. The "
        "argmin's λ(W) overstates it by √2."
    ),
    counterexample="d = m = 2, W = diag(2, 0): λ(W) = 2, but ‖xW‖ = 0 for x = (0, 1).",
    corrected=(
        "For an x that does not depend on W ∈ R^{d×m} (Xavier, gain λ): E‖xW‖² = "
        "λ²·2m/(d+m)·‖x‖²; the factor is "
        "λ for square matrices, and the argmin's λ(W) is √2 times too large."
    ),
    check=check,
    seconds=1.5,
)
