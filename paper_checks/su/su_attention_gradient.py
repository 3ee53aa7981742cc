from paper_checks.shared.bench import Claim, Lab, Settings
from paper_checks.shared.branch_gradients import Branch, judge_branch
from paper_checks.shared.record import SU

CLAIM = Claim(
    name="su-attention-gradient",
    source=f"{SU}, §Self-attention, third and fourth equations",
    statement="∂L/∂λ_v = O(λ_o/α) and ∂L/∂λ_o = O(λ_v/α).",
    conditions="""post-LN stacks of self-attention sublayers; λ from 1/8 to 8, α from 1 to 64; text,
        independent and correlated tokens, 1 and 4 heads, 16 to 128 tokens""",
    finding="""The exponents (0, 1, −1) and (1, 0, −1) in the two gains and α are met within 0.02 as
        long as the branch is small beside the stream. The relation is an upper bound at any branch
        weight but an order only for r = λ₁λ₂/α ≪ 1: at r = 64 the gradient is 3 % of λ/α. With √(α²
        + c²λ₁²λ₂²) in place of α, c the rms of the bare branch, it is an order everywhere. Heads,
        tokens and their correlation change none of this.""",
    seconds=(0.5, 15),
)


def conditions(lab: Lab) -> dict[str, Settings]:
    """The average depends on what tokens share and on how many there are."""
    found = {"text": lab.settings(), "correlated tokens": lab.settings(data="gaussian:0.9")}
    if lab.full:
        found |= {
            "independent tokens": lab.settings(data="gaussian:0"),
            "width 128": lab.settings(width=128, seeds=8),
            "one head": lab.settings(heads=1),
            "128 tokens": lab.settings(tokens=128),
        }
    return found


judge_branch(CLAIM, Branch("attention", "value", "output"), conditions)
