"""ReZero's trained scalars end near 1/N."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU

if TYPE_CHECKING:
    from torch import Tensor

INVERSE, FALLS, ROOT = (
    "the mean |a| after training goes as 1/N",
    "the mean |a| falls with the depth",
    "it falls no faster than N^{−1/2}: S·a² does not shrink with the depth",
)


def check(context: Context) -> tuple[Finding, ...]:
    """ReZero stacks without norms, trained with Adagrad on text; the exponent of mean |a|."""
    import torch

    from paper_checks.shared.stacks import exponent, no_more_than, on_the_exponent

    at = (4, 8, 16, 32)
    found, inverse, losses, sizes = [], [], {}, {}
    for rate, steps in context.pick(((0.02, 100),), ((0.02, 300), (0.01, 300))):
        label = f"rate {rate}, {steps} steps"
        runs = [_train(context, depth, rate, steps) for depth in at]
        values = torch.stack([a.abs().mean(0) for a, _ in runs], dim=1).double().numpy()
        found.append(exponent(label, at, values))
        inverse.append(exponent(f"1/|a|, {label}", at, 1 / values))
        losses[label] = [loss for _, loss in runs]
        sizes[label] = (values.mean(0) * at).tolist()
    return (
        on_the_exponent(
            INVERSE, found, -1.0, **{"|a|*N": sizes, "last loss": losses, "seed": context.seed}
        ),
        no_more_than(FALLS, found, 0.0, tolerance=-0.05),
        no_more_than(ROOT, inverse, 0.5),
    )


def _train(context: Context, depth: int, rate: float, steps: int) -> tuple[Tensor, float]:
    """The scalars (2N, seeds) of x + aF(x) after training from a = 0, and the last loss."""
    import torch
    from torch.nn.functional import cross_entropy

    from deepnet_theory.runtime import build, described
    from deepnet_theory.spec.constants import (
        Architecture,
        Constants,
        PartConstants,
        SublayerConstants,
    )
    from deepnet_theory.spec.sublayer import Role
    from paper_checks.shared.laboratory import generator_for, text_windows

    seeds, tokens, batch, width = 12, 16, 4, 32
    kinds = tuple(SublayerConstants(kind, 1.0, 1.0) for kind in ("attention", "ffn"))
    model = build(
        Constants(
            "encoder",
            "post-ln",
            "layer",
            (PartConstants("encoder", depth, True, kinds),),
            Architecture(width=width, heads=4, residual_gain=0.0),
        ),
        seeds=seeds,
        generator=generator_for(context.seed, f"rezero {depth}"),
        embedding_generator=generator_for(context.seed, "embedding and head"),
    )
    norms = (Role.NORM_GAIN, Role.NORM_BIAS)
    parameters = [p for p, d in described(model) if d.role not in norms]
    optimizer = torch.optim.Adagrad(parameters, lr=rate)
    data = generator_for(context.seed, "training data")
    for _ in range(steps):
        windows = text_windows(seeds * batch, tokens + 1, data).reshape(seeds, batch, -1)
        x = model.embed(windows[..., :-1])
        for residual in model.residuals():  # no norm
            x = x + residual.residual_gain.view(-1, 1, 1, 1) * residual.branch(x)
        logits = model.head(x).flatten(0, -2)
        loss = cross_entropy(logits, windows[..., 1:].flatten(), reduction="none")
        optimizer.zero_grad(set_to_none=True)
        loss.view(seeds, -1).mean(1).sum().backward()
        optimizer.step()
    gains = [residual.residual_gain.detach().flatten() for residual in model.residuals()]
    return torch.stack(gains), float(loss.detach().mean())


CLAIM = Claim(
    name="su-rezero-1-over-n",
    source=f"{SU}, reader's comment of 2023-07 on ReZero (arXiv 2003.04887)",
    statement="ReZero's scalars, trained with Adagrad, converge to about 1/N.",
    conditions="causal ReZero stacks without norms, Adagrad, text, 4 to 32 layers, width 32, "
    "100 and 300 steps at rates 0.02 and 0.01",
    recorded=(
        Ruling(INVERSE, Verdict.REFUTED),
        Ruling(FALLS, Verdict.SUPPORTED),
        Ruling(ROOT, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "Not at this scale, short of convergence: after 300 Adagrad steps the mean size falls as "
        "N^{−0.50 ± 0.03} at rate 0.02 and as N^{−0.38 ± 0.03} at rate 0.01 between 4 and 32 "
        "layers (N^{−0.47} after 100 steps): never faster than N^{−1/2}, which keeps S·a² and not "
        "S·a constant, the balance of independent directions. The exponent is a property of rate "
        "and time as much as of depth; 1/N would take S aligned branches."
    ),
    counterexample=(
        "Width 32, Adagrad 0.02, 300 steps: mean |a| is 0.079, 0.059, 0.040 and 0.028 at 4, 8, 16 "
        "and 32 layers, so |a|·N is 0.32, 0.47, 0.64 and 0.91."
    ),
    corrected=(
        "Mean |a| falls with depth no faster than N^{−1/2} in training of some hundred steps: S·a² "
        "stays of order one, S·a grows."
    ),
    check=check,
    seconds=20,
    full_seconds=163,
)
