"""η/N in place of a rule keeps the increment constant."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU

LINEAR, BOUND, PLAIN, MATCHED = (
    "η/N keeps the increment constant where every matrix gradient is O(1) (α = λ = (2N)^{−1/2})",
    "η/N keeps the increment of plain post-LN from growing",
    "η/N keeps it constant in plain pre-LN under SGD and Adam",
    "η/N^e with the measured exponent e keeps it constant in plain pre-LN under Adam",
)

DATA = ("independent tokens", "correlated tokens")


def check(context: Context) -> tuple[Finding, ...]:
    """Exponents of η·‖∇L‖² and η·‖∇L‖₁ with the learning rate η/N, on stacks without a rule."""
    import numpy as np

    from paper_checks._stack import (
        Net,
        absolute_gradient,
        exponent,
        on_the_exponent,
        per_depth,
        settings,
        squared_gradient,
        variations,
    )
    from paper_checks._verdicts import interval_within

    at = context.pick((8, 32, 128), (16, 48, 144))
    divided = 1 / np.array(at)
    plain_post, plain_pre = Net(), Net(placement="pre-ln")
    unit = Net("(2*N)**(-1/2)", "(2*N)**(-1/2)")
    base = settings(context, width=64, seeds=16)
    linear = [
        exponent(n, at, per_depth(unit, at, s, squared_gradient) * divided)
        for n, s in variations(context, DATA, width=64, seeds=16).items()
    ]
    post = [
        exponent(f"{o}", at, per_depth(plain_post, at, base, q) * divided)
        for o, q in (("sgd", squared_gradient), ("adam", absolute_gradient))
    ]
    pre_values = {
        o: per_depth(plain_pre, at, base, q)
        for o, q in (("sgd", squared_gradient), ("adam", absolute_gradient))
    }
    pre = [exponent(o, at, v * divided) for o, v in pre_values.items()]
    half = [exponent("adam", at, pre_values["adam"] * divided**0.5)]
    high = max(e.interval.high for e in post)
    return (
        on_the_exponent(LINEAR, linear, 0.0, [("no warm-up", 1.0)], 0.15),
        interval_within(
            BOUND,
            -9.0,
            high,
            -9.0,
            0.25,
            f"exponents {', '.join(f'{e.label} {e}' for e in post)}",
            {"measured": [e.to_dict() for e in post], "seed": context.seed},
        ),
        on_the_exponent(PLAIN, pre, 0.0),
        on_the_exponent(MATCHED, half, 0.0, [("η/N", -0.5)], 0.15),
    )


CLAIM = Claim(
    name="su-warmup",
    source=f"{SU}, §Increment explosion, last paragraph",
    statement="A learning rate of at most η/N at the start (warm-up) keeps the increment "
    "constant in depth.",
    conditions="stacks without a rule, 8 to 144 layers, width 64; increments of SGD and Adam",
    recorded=(
        Ruling(LINEAR, Verdict.SUPPORTED),
        Ruling(BOUND, Verdict.SUPPORTED),
        Ruling(PLAIN, Verdict.REFUTED),
        Ruling(MATCHED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "η/N is exactly right where every matrix gradient is of order one, and it stops the "
        "growth in plain post-LN (exponents −0.1 and −0.2 ± 0.2 for SGD and Adam). As an upper "
        "bound on the rate it is safe everywhere. As a recipe it overshoots in plain pre-LN, "
        "where the increment then falls as N^{−0.7} under SGD and N^{−0.5} under Adam: there "
        "Adam needs η/√N."
    ),
    counterexample=(
        "Plain pre-LN with rate η/N, width 64: Adam's increment per η is 163, 93 and 45 at 8, "
        "32 and 128 layers."
    ),
    corrected=(
        "The rate that keeps the increment constant is η/N^e with e the growth exponent without "
        "a rule: 1 for gradients O(1), about 1/2 for plain pre-LN under Adam."
    ),
    check=check,
    seconds=14,
)
