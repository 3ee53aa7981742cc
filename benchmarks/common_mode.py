"""What R, the common mode's weight, does in the first steps of training: one switch an arm.

    python benchmarks/common_mode.py [--wide] [--seeds 6] [--steps 40] [-o FILE]

A byte decoder of 8 layers, RMS norm, the recommended rule, AdamW (0.9, 0.95), 8 windows of 64
bytes a step, one thread; all seeds of an arm are one stack of models. Beside each measured R stands
what the clock s = Σ η says without a fitted number: the step of R = 1
(:func:`summed_rate`), and the recursion of :func:`predicted`, which has no part of
a token's own and so cannot come back. To standard output and ``benchmarks/results/common_mode.md``.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from arguments import output, whole
from common_mode_alone import ARMS, TOKENS, WIDE, Arm, Outcome, predicted
from torch import Tensor, nn

import deepnet_theory as dt
from deepnet_theory import parameter_groups, start_head_
from deepnet_theory.laboratory.runs import DROWNED, CommonMode, watching
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.text import BYTES, Text
from deepnet_theory.laboratory.training import Course, begun, cross_entropy
from deepnet_theory.laboratory.transfer import causal
from deepnet_theory.laboratory.trial import generator_for
from deepnet_theory.runtime.linear import normalise
from deepnet_theory.runtime.model import Embedding, Model

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "common_mode.md"
WIDE_RESULTS = RESULTS.with_name("common_mode_wide.md")
BATCH = 8


class Positioned(nn.Module):
    """norm(√d E[token] + positions), for a stack of seeds."""

    def __init__(self, inner: Embedding, arm: Arm) -> None:
        super().__init__()
        self.weight, self.norm, self.arm = inner.weight, inner.norm, arm
        self.generator = torch.Generator().manual_seed(77)
        self.positions: nn.Parameter | None = None
        if arm.positions == "learned":
            drawn = torch.randn(len(self.weight), 1, TOKENS, arm.width, generator=self.generator)
            self.positions = nn.Parameter(arm.size * drawn)

    def forward(self, tokens: Tensor) -> Tensor:
        k = len(self.weight)
        x = math.sqrt(self.arm.width) * self.weight[torch.arange(k).view(k, 1, 1), tokens]
        if self.positions is not None:
            x = x + self.positions
        elif self.arm.positions == "noise":
            x = x + torch.randn(x.shape, generator=self.generator)
        return normalise(x, self.norm)


def train(arm: Arm, text: Text, seeds: int, steps: int) -> list[tuple[CommonMode, ...]]:
    """R and the tokens' cosine before every step, of every seed."""
    derived = dt.derive(
        optimizer="adam", stack="decoder", placement=arm.placement, closure="complete", norm="rms"
    )
    sizes = {"width": arm.width, "heads": 4, "head_bias": arm.bias != "none"}
    constants = causal(dt.export(derived, depth=arm.layers, **sizes))  # type: ignore[arg-type]
    own = Settings(
        width=arm.width, heads=4, seeds=seeds, batch=BATCH, tokens=TOKENS, device="cpu",
        data="text", step="all",
    )  # fmt: skip
    course = Course(derived.selection.the_optimizer, own, steps)
    each = [
        _followed(arm, text, begun(constants, course, seed), seed, steps) for seed in range(seeds)
    ]
    return [*zip(*each, strict=True)]


def _followed(arm: Arm, text: Text, model: Model, seed: int, steps: int) -> list[CommonMode]:
    """R and the tokens' cosine before every step of one model."""
    model.embed = Positioned(model.embed, arm)  # type: ignore[assignment]
    with torch.no_grad():
        model.head.weight.mul_(arm.sigma / math.sqrt(2 / (arm.width + BYTES)))
    if arm.bias == "unigram":
        start_head_(model.head, text.counts)
    groups = parameter_groups(model, arm.rate)
    optimizer = torch.optim.AdamW(groups, betas=(arm.beta1, 0.95), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: arm.eta(t) / arm.rate)
    found = []
    for step in range(steps):
        with watching(model) as seen:
            loss = cross_entropy(model, text.batch(BATCH, generator_for(seed, f"batch {step}")))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        found += seen
    return found


def study(arm: Arm, seeds: int, steps: int) -> Outcome:
    with tempfile.NamedTemporaryFile("wb", suffix=".txt") as file:
        if arm.text == "source code":  # the standard library's own modules
            modules = sorted(Path(statistics.__file__).parent.glob("[a-z]*.py"))
            file.write(b"".join(module.read_bytes() for module in modules)[:500_000])
            file.flush()
        text = Text(None if arm.text == Arm.text else file.name, TOKENS)
    p = (text.counts.double().numpy() + 1) / float(text.counts.sum() + BYTES)
    batches = [
        text.batch(BATCH, generator_for(0, f"batch {step}")).targets.flatten() for step in range(32)
    ]
    off = [torch.bincount(b, minlength=BYTES).numpy() / len(b) - p for b in batches]
    noise = float(np.sqrt(np.mean([(o**2).sum() for o in off])))
    r = np.array([[seed.weight for seed in step] for step in train(arm, text, seeds, steps)]).T
    told = f"{arm.text}: {text.digest[:12]}, unigram {text.baseline:.2f} nats"
    return Outcome(arm, r, predicted(arm, p, noise, steps), told)


HEAD = """\
# The common part of all tokens in the first steps of training

In the first steps all branches learn the token frequencies, and change every token in one
direction. R is the weight of this common part relative to the residual stream. The table compares
R in training with its prediction, and counts the runs in which the common part drowns the rest.

An arm is named by its change of the usual arm: post-LN with α = 2N, 8 layers of width 64, a head
of standard deviation 0.02 without a bias, learned positions as large as the tokens, 15 steps of
warm-up to a learning rate of 0.008. *Bias unigram*: the head's bias starts at the log-unigram.
*Drowned*: a token's own part is less than {drowned:g} of the output at the last step (Wilson's 95
% interval).

Set-up: {seeds} seeds, {steps} steps. Texts: {texts}. {versions}. Made by `python
benchmarks/common_mode.py{option}`.

| arm | Σ η at R = 1, measured / derived | R, measured / predicted, up to R = 4 | \
peak of R, median (seeds) | step of the peak | \
predicted peak of R | R at the end | runs drowned |
|---|---|---|---|---|---|---|---|
"""


def page(found: Sequence[Outcome], option: str = "") -> str:
    """The table, and what it says of the predictions."""
    seeds, steps = found[0].r.shape
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, one thread"
    texts = "; ".join(dict.fromkeys(o.text for o in found))
    head = HEAD.format(
        option=option, seeds=seeds, steps=steps, texts=texts, versions=versions, drowned=DROWNED
    )
    clock = [o.of_clock for o in found if not math.isnan(o.of_clock)]
    rise = [x for o in found if o.arm.beta1 for x in o.of_rise]
    fed = [o for o in found if o.of_rise]
    peaks = [o.of_peak for o in fed if o.arm.beta1]
    still = [o.of_peak for o in fed if not o.arm.beta1]
    ranks = [
        np.argsort(np.argsort(x))
        for x in zip(*((float(np.median(o.r.max(1))), max(o.predicted)) for o in fed), strict=True)
    ]
    order = float(np.corrcoef(*ranks)[0, 1]) if len(fed) > 2 else math.nan

    def judged(values: Sequence[float]) -> str:
        if not values:
            return "UNDECIDED, not run"
        verdict = "SUPPORTED" if all(0.5 <= v <= 2 for v in values) else "REFUTED"
        span = f"{min(values):.2f} to {max(values):.2f} in {len(values)}"
        return f"{statistics.median(values):.2f} ({span}): {verdict}"

    return (
        head
        + "\n".join(o.row() for o in found)
        + f"""

Measured / predicted, median (range). SUPPORTED: all are within a factor of 2.

- Σ η at R = 1: {judged(clock)}.
- The rise with momentum, every step up to a predicted R of 4: {judged(rise)}.
- The peak without momentum (β₁ = 0): {judged(still)}.
- The peak with momentum: {judged(peaks)}; rank correlation of all arms {order:.2f}.
"""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=whole(2), default=6)
    parser.add_argument("--steps", type=whole(4), default=40)
    parser.add_argument("--arms", type=whole(), default=len(ARMS), help="the first ones alone")
    parser.add_argument("--wide", action="store_true", help="the switches again at width 128")
    parser.add_argument("-o", "--output", type=output)
    asked = parser.parse_args()
    arms, where = (WIDE, WIDE_RESULTS) if asked.wide else (ARMS, RESULTS)
    torch.set_num_threads(1)
    found = []
    for arm in arms[: asked.arms]:
        found.append(study(arm, asked.seeds, asked.steps))
        print(found[-1].row(), flush=True)
    said = page(found, " --wide" * asked.wide)
    (asked.output or where).write_text(said, encoding="utf-8")


if __name__ == "__main__":
    main()
