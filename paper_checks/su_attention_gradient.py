"""∂L/∂λ_v = O(λ_o/α), ∂L/∂λ_o = O(λ_v/α)."""

from dataclasses import replace

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import exponent, numbers, worst

KNOBS = ("λ_v", "λ_o", "α")

ORDER, PROBE, BOUND, EXACT, LAW = (
    "order of ‖∂L/∂W‖ for a small branch weight",
    "order of |∂L/∂λ| for a small branch weight",
    "as a bound, at any branch weight",
    "as an order (Θ) it fails where the branch is not small",
    "with √(α² + λ₁²λ₂²) in place of α, for one sublayer at any branch weight",
)


# The average that attention takes depends on what the tokens share and on how many there are.
CONDITIONS = {
    "one head": {"heads": 1},
    "128 tokens": {"tokens": 128},
    "correlated tokens": {"data": "gaussian:0.9"},
}


def check(context: Context) -> tuple[Finding, ...]:
    """The scan of knobs on stacks of attention sublayers."""
    from paper_checks._branch_gradients import check_branch
    from paper_checks._scan import gradients, grid, knob_exponents
    from paper_checks._stack import settings

    names = ("value", "output")
    order, probe, *rest = check_branch(context, "attention", *names)
    points = grid((0.25, 0.5, 1.0), (16.0, 32.0, 64.0))
    found: dict[str, dict[str, list[float]]] = {"gradient": {}, "probe": {}}
    judged = {"gradient": [order], "probe": [probe]}
    for label in context.pick(("correlated tokens",), tuple(CONDITIONS)):
        s = settings(context, **CONDITIONS[label])
        values = gradients("attention", *names, points, context.pick(4, 16), s)
        for kind, (first, *_) in judged.items():
            for name, powers in zip(names, ((0, 1, -1), (1, 0, -1)), strict=True):
                fitted = knob_exponents(points, values[f"{kind} {name}"])
                for knob, interval, power in zip(KNOBS, fitted, powers, strict=True):
                    what = f"{kind} of {name} in {knob}, {label}"
                    found[kind][what] = numbers(interval)
                    judged[kind].append(exponent(first.about, interval, power, what=what))
    both = (
        replace(worst(judged[kind]), evidence={**first.evidence, "exponents": found[kind]})
        for kind, first in (("gradient", order), ("probe", probe))
    )
    return (*both, *rest)


CLAIM = Claim(
    name="su-attention-gradient",
    source=f"{SU}, §Self-attention, third and fourth equations",
    statement="∂L/∂λ_v = O(λ_o/α) and ∂L/∂λ_o = O(λ_v/α).",
    conditions="post-LN stacks of self-attention sublayers; λ from 1/8 to 8, α from 1 to 64; text, "
    "independent and correlated tokens, 1 and 4 heads, 16 to 128 tokens",
    recorded=(
        Ruling(ORDER, Verdict.SUPPORTED),
        Ruling(PROBE, Verdict.SUPPORTED),
        Ruling(BOUND, Verdict.SUPPORTED),
        Ruling(EXACT, Verdict.SUPPORTED),
        Ruling(LAW, Verdict.SUPPORTED),
    ),
    finding=(
        "The exponents (0, 1, −1) and (1, 0, −1) in the two gains and α are met within 0.01 as "
        "long as the branch is small beside the stream. The relation is an upper bound at any "
        "branch weight but an order only for r = λ₁λ₂/α ≪ 1: at r = 64 the gradient is 3 % of "
        "λ/α. With √(α² + c²λ₁²λ₂²) in place of α, c the rms of the bare branch, it is an order "
        "everywhere. Heads, tokens and their correlation change none of this."
    ),
    check=check,
    seconds=0.5,
)
