from typing import Any

from paper_checks.shared.bench import Claim, Finding, Lab, Tensor, once
from paper_checks.shared.record import MARGIN, NOTE, SUPPORTED, UNDECIDED
from paper_checks.shared.training import above_bytes, ends, model_constants, train_model

CLAIM = Claim(
    name="norms-tradeoff",
    source=f"{NOTE}, §1, first paragraph",
    statement="""Under the same setting Pre-Norm is easier to train, but its final result is usually
        not as good as Post-Norm's.""",
    conditions="""byte-level causal stacks of width 32 on real text, Adam without warm-up, paired
        seeds; 24 layers at 3·10⁻³ for 120 to 300 steps, 2 and 4 layers at 10⁻³, 3·10⁻³ and 10⁻² for
        200 to 400 steps""",
    finding="""The first half is seen even at small scale: at 24 layers without warm-up Pre-LN is at
        2.72 nats after 300 steps, and plain Post-LN does not get below the entropy of the byte
        frequencies (3.29). The second half is not tested: it speaks of final results, usually, and
        width 32 and 400 steps show neither a final result nor what warm-up fixes. What they show is
        that no advantage of Post-LN comes with the equation alone: at the same rate it is even at
        best (2 layers, 10⁻³: +0.003 nats [−0.001, 0.008] behind) and falls behind with the rate (2
        layers at 10⁻²: 0.12) and the depth (4 layers at 3·10⁻³: 0.10).""",
    would_decide="""Pre-LN and Post-LN models of usual size (6 to 12 layers, width 512 and more),
        each at its best rate with warm-up, trained to the end on several tasks with paired seeds:
        Post-LN's final result is better in most of them, or is not.""",
    seconds=(33, 190),
)


@CLAIM.stated("24 layers, no warm-up: Pre-LN's perplexity is lower by 5 % or more", SUPPORTED)
def easier(lab: Lab) -> Finding:
    pre, post = (ends(losses, len(losses) // 5) for losses in deep(lab))
    gap = lab.mean(pre - post)
    return lab.at_most(gap, -MARGIN, "Pre-LN minus Post-LN, 24 layers, nats", 0.0)


@CLAIM.ours("24 layers, no warm-up: plain Post-LN is no better than byte frequencies", SUPPORTED)
def stuck(lab: Lab) -> Finding:
    last, losses = lab.pick(120, 300) // 5, deep(lab)
    pre, post = (ends(of, last).mean() for of in losses)
    what = f"Post-LN, {post:.3f} nats (Pre-LN {pre:.3f}), minus byte frequencies"
    return lab.at_least(lab.mean(above_bytes(losses[1], last, **windows(lab))), -MARGIN, what)


@CLAIM.stated("where both train, Post-LN's final result is usually better", UNDECIDED)
def better_in_the_end(lab: Lab) -> Finding:
    return lab.undecided("no model of usual size was trained to its end here")


@CLAIM.ours(
    "2 and 4 layers of width 32, a short training: Post-LN is nowhere lower by 5 %", SUPPORTED
)
def nowhere_ahead(lab: Lab) -> Finding:
    every = ((2, 1e-3), (2, 3e-3), (2, 1e-2), (4, 1e-3), (4, 3e-3))
    steps, gaps = lab.pick(200, 400), {}
    for layers, rate in lab.pick(((2, 3e-3),), every):
        both = trained(layers, steps, rate, seed=lab.seed, seeds=8)
        pre, post = (ends(losses, steps // 4) for losses in both)
        gaps[f"{layers} layers, rate {rate:g}"] = lab.mean(post - pre)
    return lab.at_least(gaps, -MARGIN, f"Post-LN minus Pre-LN after {steps} steps, nats")


@once
def deep(lab: Lab) -> list[Tensor]:
    """The losses of 24 layers."""
    return trained(24, lab.pick(120, 300), 3e-3, **windows(lab))


def windows(lab: Lab) -> dict[str, Any]:
    """What 24 layers read."""
    return {"seed": lab.seed, "seeds": 4, "batch": 4}


def trained(layers: int, steps: int, rate: float, **chosen: Any) -> list[Tensor]:
    """The losses (steps, seeds) of Pre-LN and of Post-LN."""
    nets = [model_constants(layers, 1.0, 1.0, 32, p) for p in ("pre-ln", "post-ln")]
    return [train_model(net, steps, rate, **chosen)[0] for net in nets]
