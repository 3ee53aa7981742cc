r"""R and the tokens' cosine of a model in training: do its branches move all tokens alike?

.. math:: R = \Bigl\|\sum_l \frac{b_l\,\overline{f_l}}{a_l\,\|x_l\|}\Bigr\|

with :math:`\overline{f_l}` the mean of a branch over tokens, a and b the factors of stream and
branch, ‖x‖ the stream's size beside it where a norm takes the sum back, else where it enters.

Early in training every branch moves all tokens in one direction m̂: the stack learns what they have
in common. With r the branch's weight beside the stream, R = Σr over the sublayers, and the
stream :math:`x = a\hat m + z`, a norm on every sum divides z, a token's own, in each sublayer:

.. math:: \frac{da}{dR} = 1 - a^2, \quad \frac{dz}{dR} = -a z
          \quad\Rightarrow\quad z = \frac{z_0}{\cosh R};

without one the stream grows to :math:`R\hat m + z_0`, and the final norm alone divides it, by
:math:`\sqrt{1 + R^2}`. So does the gradient that reaches what lies below.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TypedDict

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.placement import Placement, placement
from deepnet_theory.runtime.model import Model, Residual

DROWNED = 0.01  # of an output, the share that is a token's own: what is warned of
EVERY = 16  # steps between two takings, behind the first ones


def is_taken(step: int) -> bool:
    """Whether R is taken at a step, counted from 0: at 0, 1, 2, 4, 8, 16, 32, 48 and so on."""
    return step % EVERY == 0 if step >= EVERY else step & (step - 1) == 0


@dataclass(frozen=True)
class CommonMode:
    """R of the last part's branches, and the mean cosine between tokens at its output.

    ``layers`` are what the branches of each layer weigh beside the stream there, their sum.
    """

    weight: float
    cosine: float
    layers: tuple[float, ...] = ()


class Sum:
    """R and the weights of layers, branch by branch; tensors are (models, tokens, width)."""

    def __init__(self) -> None:
        self.common: Tensor | None = None
        self.layers: dict[int, Tensor] = {}

    def add(self, layer: int, branch: Tensor, beside: Tensor, here: Tensor) -> None:
        """Join a branch; R counts it ``beside`` one length of the stream, its layer ``here``."""
        mean = branch.mean(1) / beside
        self.common = mean if self.common is None else self.common + mean
        weight = (length(branch) / here)[:, 0]
        self.layers[layer] = self.layers.get(layer, 0.0) + weight

    def found(self, output: Tensor) -> tuple[CommonMode, ...]:
        unit = nn.functional.normalize(output, dim=-1)
        n = unit.shape[1]
        assert self.common is not None
        cosines = (unit.sum(1).square().sum(-1) - n) / max(1, n * (n - 1))
        layers = torch.stack([self.layers[i] for i in sorted(self.layers)], 1).tolist()
        each = zip(self.common.norm(dim=-1).tolist(), cosines.tolist(), layers, strict=True)
        return tuple(CommonMode(weight, cosine, tuple(row)) for weight, cosine, row in each)


def length(x: Tensor) -> Tensor:
    """The root mean square over tokens of their lengths: (models, tokens, width) → (models, 1)."""
    return x.square().sum(-1).mean(1, keepdim=True).sqrt()


class Watch:
    """Takes R in one forward pass of a model, or of a stack of them: ``found`` has one each."""

    def __init__(self, model: Model) -> None:
        *_, part = model.parts.values()
        self.residuals = [m for m in part.modules() if isinstance(m, Residual)]
        self.part = part
        self.stacked = model.embed.weight.dim() == 3
        self.found: tuple[CommonMode, ...] = ()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this context a forward pass of the model leaves ``found``."""
        self.found = ()
        total, streams = Sum(), list[Tensor]()  # the stream's length before each sublayer
        handles = [self.part.register_forward_hook(partial(self._end, total))]
        for residual in self.residuals:
            places = residual.placement.places
            last = residual.norms[places.index("output")] if "output" in places else residual.branch
            handles += [
                residual.register_forward_pre_hook(partial(self._enter, streams)),
                last.register_forward_hook(partial(self._add, total, residual, streams)),
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, streams: list[Tensor], residual: Residual, inputs: tuple[Tensor]) -> None:
        streams.append(length(self._by_model(inputs[0].detach())))

    @torch.no_grad()
    def _add(
        self, total: Sum, residual: Residual, streams: list[Tensor], branch: nn.Module,
        inputs: object, moved: Tensor,
    ) -> None:  # fmt: skip
        stream, times = residual.placement.coefficients(residual.alpha)
        here = streams[-1]
        beside = here if residual.placement.normalises_sum else streams[0]
        total.add(residual.site.layer or 0, self._by_model(moved) * (times / stream), beside, here)

    @torch.no_grad()
    def _end(self, total: Sum, part: nn.Module, inputs: object, output: Tensor) -> None:
        self.found = total.found(self._by_model(output))

    def _by_model(self, x: Tensor) -> Tensor:
        return x.flatten(1, -2) if self.stacked else x.flatten(0, -2)[None]


class Columns(TypedDict):
    """What was common at some steps, as results have it."""

    common_mode_steps: tuple[int, ...]
    common_mode: tuple[float, ...]
    token_cosine: tuple[float, ...]
    branch_weights: tuple[tuple[float, ...], ...]


def columns(steps: Sequence[int], seeds: Iterable[Sequence[CommonMode]]) -> Columns:
    """The largest R of the seeds and the mean of everything else, as far as all seeds went."""
    each = list(zip(*seeds, strict=False))
    return {
        "common_mode_steps": tuple(steps[: len(each)]),
        "common_mode": tuple(max(one.weight for one in now) for now in each),
        "token_cosine": tuple(fmean(one.cosine for one in now) for now in each),
        "branch_weights": tuple(
            tuple(map(fmean, zip(*(one.layers for one in now), strict=True))) for now in each
        ),
    }


def warning(name: str, steps: Sequence[int], weights: Sequence[float]) -> str:
    """A sentence where a common part drowns what is a token's own; empty where none does.

    Of several streams nothing is said: what a common part does in them has no law.
    """
    where = placement(name)
    if where.streams is not None:
        return ""
    for step, weight in zip(steps, weights, strict=True):
        if (left := limit(where, weight)) < DROWNED:
            return (
                f"at step {step} the branches move all tokens in one direction, R = {weight:.1f} "
                f"beside the stream: what is a token's own is divided by {divisor(where)} = "
                f"{1 / left:.0f}; start the head's bias at the log of the text's token frequencies "
                "(deepnet_theory.start_head_), or take a lower learning rate"
            )
    return ""


# ---- what R does to what is a token's own ----


def limit(placement: Placement, weight: float) -> float:
    """The share of an output of size 1 that is a token's own in a deep stack, at one R."""
    return 1 / (math.cosh(weight) if placement.normalises_sum else math.hypot(1, weight))


def divisor(placement: Placement) -> str:
    """What R divides a token's own part by in a deep stack, as a formula."""
    return "cosh(R)" if placement.normalises_sum else "sqrt(1 + R**2)"


C1 = math.sqrt(2 / math.pi)  # E|ξ| of a standard normal ξ


def carried(width: int, head_std: float) -> float:
    r"""The logits, in nats, that a wholly common stream draws from a head as it starts.

    .. math:: c_1\,d\,\sigma_H, \qquad \text{the head's multiplier in } \sigma_H

    The stack moves along the signs of :math:`W_H^\top u`, u the error of the token frequencies.
    """
    return C1 * width * head_std
