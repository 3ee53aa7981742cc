"""Equal in pre-training, Post-Norm is clearly better after fine-tuning."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

EQUAL, CLEARLY, CORRECTED = (
    "2 layers: pre-training ends equal, within 0.05 nats",
    "2 layers: after fine-tuning Post-LN is ahead by 0.05 nats or more",
    "2 layers: after fine-tuning neither is ahead by 0.05 nats",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Paired runs: pre-trained on Python's documentation, fine-tuned on Python's source."""
    import argparse
    import inspect

    import torch

    from paper_checks._cake_measure import mean
    from paper_checks._cake_train import model_constants, train
    from paper_checks._verdicts import within

    source = torch.frombuffer(bytearray(inspect.getsource(argparse).encode()), dtype=torch.uint8)
    code = source.to(torch.int64)
    before, after = [], []
    steps, more = context.pick((200, 100), (400, 200))
    for seed in range(context.pick(3, 4)):
        end = {}
        for placement in ("pre-ln", "post-ln"):
            constants = model_constants(2, 1.0, 1.0, 32, placement)
            first, model = train(constants, steps, 3e-3, seed=context.seed + seed)
            second, _ = train(
                constants, more, 1e-3, seed=100 + context.seed + seed, text=code, start=model
            )
            end[placement] = (
                sum(first[-steps // 4 :]) / (steps // 4),
                sum(second[-more // 2 :]) / (more // 2),
            )
        before.append(end["post-ln"][0] - end["pre-ln"][0])
        after.append(end["post-ln"][1] - end["pre-ln"][1])
    gap, tuned = mean(before), mean(after)
    return (
        within(EQUAL, gap, -0.05, 0.05, "pre-training: Post-LN minus Pre-LN, nats", runs=before),
        within(CLEARLY, tuned, -10.0, -0.05, "fine-tuning: Post-LN minus Pre-LN, nats", runs=after),
        within(CORRECTED, tuned, -0.05, 0.05, "the same"),
    )


CLAIM = Claim(
    name="norms-transfer",
    source="Pre/Post norm note, §1, paragraph on transfer",
    statement=(
        "In pre-training Pre-Norm and Post-Norm end about equal, but Post-Norm is clearly "
        "better after fine-tuning."
    ),
    conditions=(
        "byte-level causal stacks of 2 layers, width 32: 200 to 400 steps on Python's "
        "documentation, 100 to 200 on Python's source, Adam, paired seeds"
    ),
    recorded=(
        Ruling(EQUAL, Verdict.SUPPORTED),
        Ruling(CLEARLY, Verdict.REFUTED),
        Ruling(CORRECTED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "Nothing of the kind is seen at the only scale that can be run here: two-layer "
        "stacks that end equal on Python's documentation are equal again after fine-tuning "
        "on Python's source (Post-LN minus Pre-LN −0.004 nats, interval −0.029 to 0.022, "
        "after 400 and 200 steps). After half as many steps Post-LN is ahead by 0.016 nats, "
        "which is gone later. That excludes an advantage that comes with the equation alone; "
        "it says nothing about large models and other tasks."
    ),
    counterexample=(
        "Two layers of width 32, three paired seeds: Post-LN ahead by 0.021, 0.010 and 0.018 "
        "nats only."
    ),
    corrected=(
        "At this scale placement makes no difference to fine-tuning where both placements train."
    ),
    check=check,
    seconds=15.0,
)
