import argparse
import inspect
from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, judge, once, torch
from paper_checks.shared.record import MARGIN, NOTE, SUPPORTED, UNDECIDED
from paper_checks.shared.training import ends, model_constants, train_model

CLAIM = Claim(
    name="norms-transfer",
    source=f"{NOTE}, §1, paragraph on transfer",
    statement="""In pre-training Pre-Norm and Post-Norm end about equal, but Post-Norm is clearly
        better after fine-tuning.""",
    conditions="""byte-level causal stacks of 2 and 4 layers, width 32: 200 to 400 steps on Python's
        documentation, 100 to 200 on Python's source, Adam at 3·10⁻³ and 10⁻³, paired seeds""",
    finding="""Not tested: the sentence is about pre-trained language models and the tasks that they
        are fine-tuned on, which are outside what can be run here. Nothing of the kind comes with
        the equation alone: stacks of 2 and 4 layers that end equal on Python's documentation
        (Post-LN minus Pre-LN +0.001 to +0.028 nats) are equal again after fine-tuning on Python's
        source (−0.006 [−0.018, 0.005] and −0.003 at 2 layers, +0.007 at 4). What fine-tuning does
        mend is the little that Post-LN was behind.""",
    would_decide="""Two language models of usual size (12 layers, width 768) that differ in
        placement and end pre-training at equal loss, fine-tuned with several seeds on a suite of
        downstream tasks: Post-LN's mean score is higher by more than the seeds' deviation, or is
        not.""",
    seconds=(15, 165),
)


@CLAIM.stated("pre-training ends equal, and Post-LN is clearly better after fine-tuning", UNDECIDED)
def transfer(lab: Lab) -> Finding:
    return lab.undecided("no language model was pre-trained and fine-tuned on tasks here")


@judge
def even(lab: Lab, training: str) -> Finding:
    # a difference of MARGIN nats is a factor of 1.05 in perplexity
    what = f"Post-LN minus Pre-LN after {training}, nats"
    return lab.within(gaps(lab)[training], -MARGIN, MARGIN, what)


CLAIM.ours("2 and 4 layers of width 32: pre-training ends with perplexities within 5 %", SUPPORTED)(
    even("pre-training")
)
CLAIM.ours("and after fine-tuning the perplexities are within 5 %", SUPPORTED)(even("fine-tuning"))


@once
def gaps(lab: Lab) -> dict[str, dict[str, Interval]]:
    """Post-LN minus Pre-LN, before and after fine-tuning."""
    found: dict[str, dict[str, Interval]] = {"pre-training": {}, "fine-tuning": {}}
    chosen = {"seed": lab.seed, "seeds": lab.pick(8, 12)}
    for layers, rate in lab.pick(((2, 3e-3),), ((2, 3e-3), (2, 1e-3), (4, 1e-3))):
        pre, post = (tuned(lab, p, layers, rate, **chosen) for p in ("pre-ln", "post-ln"))
        for when in found:
            found[when][f"{layers} layers, rate {rate:g}"] = lab.mean(post[when] - pre[when])
    return found


def tuned(lab: Lab, placement: str, layers: int, rate: float, **chosen: Any) -> dict[str, Array]:
    """The last losses on Python's documentation, and then on Python's source."""
    source = torch.frombuffer(bytearray(inspect.getsource(argparse).encode()), dtype=torch.uint8)
    steps, more = lab.pick((200, 100), (400, 200))
    constants = model_constants(layers, 1.0, 1.0, 32, placement)
    first, model = train_model(constants, steps, rate, **chosen)
    code = source.to(torch.int64)
    second, _ = train_model(constants, more, rate / 3, text=code, start=model, **chosen)
    return {"pre-training": ends(first, steps // 4), "fine-tuning": ends(second, more // 2)}
