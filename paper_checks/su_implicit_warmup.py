"""λ = 1 learns slowly; the symmetric choice acts as an implicit warm-up."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import seen

SLOW, WEIGHTS, WARMUP, SAME = (
    "α = (2N)^{1/2}, λ = 1 lowers the loss more slowly",
    "its weights move less, relative to themselves",
    "the symmetric choice's increments start smaller, against its later ones, than those of α = 1",
    "all three lower the loss alike over the first steps, as they are balanced alike",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Losses and weights over SGD steps with the three choices at the same learning rate."""
    from paper_checks._stack import Net, settings
    from paper_checks._train import Movement, train

    nets = {
        "alpha = 1": Net("1", "(2*N)**(-1/2)"),
        "symmetric": Net("(2*N)**(1/4)", "(2*N)**(-1/4)"),
        "lambda = 1": Net("(2*N)**(1/2)", "1"),
    }
    s = settings(context, width=32, tokens=16, batch=4, seeds=8)
    depth, steps = context.pick((32, 12), (64, 60))
    at = context.pick((3, 6, 11), (3, 6, 12, 59))
    rate = 0.3
    drop, moved, increments = {}, {}, {}
    for name, net in nets.items():
        path = Movement((1, *at))
        losses = train(net, depth, s, rate, steps, path)
        drop[name] = [float((losses[0] - losses[i]).mean()) for i in at]
        moved[name] = [path.distance[i] for i in at]
        # path length per step: ‖Δθ‖ is η‖∇L‖, so its growth is that of the update
        increments[name] = path.distance[at[-1]] / path.distance[1]
    ratio = [a / b for a, b in zip(drop["lambda = 1"], drop["alpha = 1"], strict=True)]
    spread = max(
        max(drop[n][i] for n in nets) / min(drop[n][i] for n in nets) for i in range(len(at))
    )
    less = all(c < b < a for a, b, c in zip(*moved.values(), strict=True))
    grows = increments["symmetric"] / increments["alpha = 1"]
    evidence = {
        "drop of the loss": drop,
        "moved": moved,
        "growth of the path": increments,
        "steps": at,
        "rate": rate,
        "layers": depth,
        "seed": context.seed,
    }
    return (
        seen(
            SLOW,
            min(ratio) < 0.8,
            f"its drop is {min(ratio):.2f} to {max(ratio):.2f} of that of α = 1",
            **evidence,
        ),
        seen(
            WEIGHTS,
            less,
            f"‖W − W₀‖/‖W₀‖ after {at[-1]} steps: "
            + ", ".join(f"{n} {v[-1]:.4f}" for n, v in moved.items()),
        ),
        seen(
            WARMUP,
            grows > 1.2,
            f"the path from step 1 to {at[-1]} grows {grows:.2f} times as much as for α = 1",
        ),
        seen(SAME, spread < 1.5, f"the drops agree within a factor {spread:.2f} after {at} steps"),
    )


CLAIM = Claim(
    name="su-implicit-warmup",
    source=f"{SU}, §First conclusions, alternative two and the paragraph below",
    statement=(
        "α = (2N)^{1/2}, λ = 1 may learn very slowly; the symmetric choice starts somewhat "
        "slower than "
        "α = 1 and so acts as an implicit warm-up."
    ),
    conditions="SGD on the branch matrices, text, 32 and 64 layers, width 32, 12 to 60 steps, "
    "equal learning rates",
    recorded=(
        Ruling(SLOW, Verdict.REFUTED),
        Ruling(WEIGHTS, Verdict.SUPPORTED),
        Ruling(WARMUP, Verdict.REFUTED),
        Ruling(SAME, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "Not seen in training: at equal learning rates the three choices lower the loss alike "
        "over the first dozen SGD steps (within 10 %), λ = 1 included, since they are balanced "
        "to move the output alike. Relative to themselves the weights do move less with λ = 1 "
        "(0.017 against 0.144), but the loss does not care; and the increments of the symmetric "
        "choice do not start smaller against its later ones, so that there is no warm-up to "
        "speak of."
    ),
    counterexample=(
        "32 layers, width 32, rate 0.3, 11 SGD steps: the loss falls by 0.56 (α = 1), 0.51 "
        "(symmetric), 0.52 (λ = 1)."
    ),
    corrected=(
        "Choices on the balanced curve learn alike at the start; they differ in the relative "
        "update of the weights, which weight decay or a norm-dependent optimizer would see."
    ),
    check=check,
    seconds=2,
)
