r"""R and the tokens' cosine of a model in training: do its branches move all tokens alike?

.. math:: R = \Bigl\|\sum_l \frac{b_l\,\overline{f_l}}{a_l\,\|x_l\|}\Bigr\|

with :math:`\overline{f_l}` the mean of a branch over tokens, a and b the factors of stream and
branch, ‖x‖ the stream's size beside it where a norm takes the sum back, else where it enters. What
is a token's own is divided by cosh(R) in a deep stack with a norm on every sum, and by
:math:`\sqrt{1 + R^2}` where the final norm alone takes the stream back.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.measurement import Run
from deepnet_theory.runtime.model import Model, Residual

DROWNED = 0.01  # of an output, the share that is a token's own: what is warned of
EVERY = 16  # steps between two takings, behind the first ones


def is_taken(step: int) -> bool:
    """Whether R is taken at a step, counted from 0: at 0, 1, 2, 4, 8, 16, 32, 48 and so on."""
    return step % EVERY == 0 if step >= EVERY else step & (step - 1) == 0


@dataclass(frozen=True)
class CommonMode:
    """R of the last part's branches, and the mean cosine between tokens at its output."""

    weight: float
    cosine: float


@torch.no_grad()
def weighed(branch: Tensor, times: float, stream: Tensor) -> Tensor:
    """What all tokens share of a branch, ``times`` in the sum, in units of a stream: (width,)."""
    mean, x = branch.float().flatten(0, -2).mean(0), stream.float().flatten(0, -2)
    return mean * times / x.square().sum(-1).mean().sqrt()


@torch.no_grad()
def common_to(terms: Sequence[Tensor], output: Tensor) -> CommonMode:
    """R of branches, each as it is :func:`weighed`; cosines of an ``output``."""
    unit = nn.functional.normalize(output.float().flatten(0, -2), dim=-1)
    n = len(unit)
    cosine = (unit.sum(0).square().sum() - n) / max(1, n * (n - 1))
    return CommonMode(float(torch.stack(list(terms)).sum(0).norm()), float(cosine))


@contextmanager
def watching(model: Model) -> Iterator[list[CommonMode]]:
    """Within this context each forward pass of a model of ours adds what its tokens share."""
    *_, part = model.parts.values()
    found, terms, streams = list[CommonMode](), list[Tensor](), list[Tensor]()

    def enter(residual: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        streams.append(inputs[0].detach())

    def add(residual: Residual, branch: nn.Module, inputs: object, moved: Tensor) -> None:
        stream, times = residual.placement.coefficients(residual.alpha)
        beside = streams[-1 if residual.placement.normalises_sum else 0]
        terms.append(weighed(moved, times / stream, beside))

    def end(part: nn.Module, inputs: object, output: Tensor) -> None:
        found.append(common_to(terms, output))
        terms.clear()
        streams.clear()

    handles = [part.register_forward_hook(end)]
    for residual in (m for m in part.modules() if isinstance(m, Residual)):
        places = residual.placement.places
        last = residual.norms[places.index("output")] if "output" in places else residual.branch
        handles.append(residual.register_forward_pre_hook(enter))
        handles.append(last.register_forward_hook(partial(add, residual)))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def warning(normed: bool, run: Run) -> str:
    """A sentence where a common part drowns what is a token's own; empty where none does.

    ``normed`` says that a norm takes every sum back.
    """
    for step, weight in zip(run.common_mode_steps, run.common_mode, strict=True):
        divided = math.cosh(min(weight, 700.0)) if normed else math.hypot(1, weight)
        if divided * DROWNED > 1:
            return (
                f"at step {step} the branches move all tokens in one direction, R = {weight:.1f} "
                "beside the stream: what is a token's own is divided by "
                f"{'cosh(R)' if normed else 'sqrt(1 + R**2)'} = {divided:.0f}; start the head's "
                "bias at the log of the text's token frequencies (deepnet_theory.start_head_), or "
                "take a lower learning rate"
            )
    return ""
