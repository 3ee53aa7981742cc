"""‖xW‖ ≈ λ‖x‖."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import RETOLD
from paper_checks._verdicts import seen

if TYPE_CHECKING:
    from torch import Tensor

    from deepnet_theory.numeric.trial import Trial

ARGMIN, EVERY, MEAN = (
    "with λ the argmin",
    "for every x",
    "with gain·√(2m/(d+m)) in place of λ, for the x that a stack presents at initialisation",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Inputs and outputs of every linear map of real stacks, at several depths."""
    import torch

    from paper_checks._stack import Net, settings

    rows: list[dict[str, Any]] = []
    worst = 0.0
    for depth in context.pick((8, 32), (8, 32, 128)):
        for data in ("text", "gaussian:0"):
            for alpha, beta in (("1", "1"), ("(2*N)**(1/4)", "(2*N)**(-1/4)")):
                trial = Net(alpha, beta).trial(depth, settings(context, data=data))
                for name, both in _factors(trial).items():
                    rows.append(
                        {
                            "layers": depth,
                            "data": data,
                            "beta": beta,
                            "matrix": name,
                            "to argmin": float(both[:, 0].mean()),
                            "to law": float(both[:, 1].mean()),
                            "furthest from law": float((both[:, 1] - 1).abs().max()),
                        }
                    )
                value = next(p for p, d in trial.parameters() if d.name == "value")
                gain = trial.rule.entries[0].at(N=depth)[1]
                worst = max(worst, float(torch.linalg.svdvals(value / gain).max()))
    off = max(abs(r["to law"] - 1) for r in rows)
    square = [r["to argmin"] for r in rows if r["matrix"] in ("query", "key", "value", "output")]
    return (
        seen(
            ARGMIN,
            all(abs(q - 1) < 0.1 for q in square),
            f"for square matrices ‖xW‖/(λ‖x‖) is {sum(square) / len(square):.3f}",
            stacks=rows,
        ),
        seen(
            EVERY,
            worst < 1.1,
            f"along its first singular vector ‖xW‖ is {worst:.2f} gain·‖x‖, along its last about 0",
        ),
        seen(
            MEAN,
            off < 0.1,
            f"mean over layers within {off:.1%} at every depth, kind and data",
            seed=context.seed,
        ),
    )


def _factors(trial: Trial) -> dict[str, Tensor]:
    """‖xW‖/‖x‖ over the argmin's λ and over the law, for the layers of each kind of matrix."""
    import torch
    from torch import nn

    from deepnet_theory.runtime.linear import Linear

    found: dict[str, list[Tensor]] = {}

    def see(module: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        w, d = module.weight, module.descriptions["weight"]  # w is (k, m, d)
        argmin = (w @ w.mT).flatten(1).norm(dim=1) / w.flatten(1).norm(dim=1)
        law = d.gain * (2 * d.fan_out / (d.fan_in + d.fan_out)) ** 0.5
        factor = (out.norm(dim=-1) / given[0].norm(dim=-1)).flatten(1).mean(1)
        both = torch.stack([(factor / argmin).mean(), (factor / law).mean()])
        found.setdefault(d.name, []).append(both)

    linear = [m for m in trial.model.parts.modules() if isinstance(m, Linear)]
    handles = [m.register_forward_hook(see) for m in linear]
    with torch.no_grad():
        trial.output()
    for handle in handles:
        handle.remove()
    return {name: torch.stack(rows) for name, rows in found.items()}


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
    seconds=0.5,
)
