r"""R and the tokens' cosine of a model in training: do its branches move all tokens alike?

.. math:: R = \Bigl\|\sum_l \frac{b_l\,\overline{f_l}}{a_l\,\|x_l\|}\Bigr\|

with :math:`\overline{f_l}` the mean of a branch over tokens, a and b what the residual equation
multiplies stream and branch by, and ‖x‖ the stream's size beside it: that of each sublayer where
a norm takes the sum back, else that of the stream that enters. What R does to what is a token's own
is :mod:`deepnet_theory.sizes.common_mode`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from deepnet_theory.runtime.linear import normalise
from deepnet_theory.runtime.model import Model
from deepnet_theory.runtime.residual import Residual
from deepnet_theory.sizes.common_mode import divisor, limit
from deepnet_theory.spec.norm import norm
from deepnet_theory.spec.placement import placement

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


class Watch:
    """Takes R in a forward pass of a model or a stack of seeds; ``found`` has each of them."""

    def __init__(self, model: Model) -> None:
        *_, part = model.parts.values()
        self.lead = 0 if model.seeds is None else 1  # dimensions before those of the tokens
        self.residuals = [m for m in part.modules() if isinstance(m, Residual)]
        self.part, self.norm = part, norm(model.constants.norm)
        self.sum: Tensor | None = None
        self.entering: Tensor | None = None
        self.found: tuple[CommonMode, ...] = ()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this context a forward pass of the model leaves ``found``."""
        self.sum, self.entering, self.found = None, None, ()
        streams: dict[Residual, Tensor] = {}
        handles = [self.part.register_forward_hook(self._end)]
        for residual in self.residuals:
            handles += [
                residual.register_forward_pre_hook(partial(self._enter, streams)),
                residual.branch.register_forward_hook(partial(self._add, residual, streams)),
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, streams: dict[Residual, Tensor], of: Residual, inputs: tuple[Tensor]) -> None:
        length = inputs[0].detach().square().sum(-1)  # root mean square over tokens, of each seed
        size = length.flatten(self.lead).mean(self.lead).sqrt()
        self.entering = size if self.entering is None else self.entering
        streams[of] = size if of.placement.normalises_sum else self.entering

    @torch.no_grad()
    def _add(
        self, of: Residual, streams: dict[Residual, Tensor], branch: nn.Module, inputs: object,
        output: Tensor,
    ) -> None:  # fmt: skip
        moved = normalise(output, self.norm) if "output" in of.placement.norms else output
        stream, times = of.placement.coefficients(of.alpha)
        mean = moved.flatten(self.lead, -2).mean(self.lead)
        mean = mean * times / (stream * streams[of])[..., None]
        self.sum = mean if self.sum is None else self.sum + mean

    @torch.no_grad()
    def _end(self, part: nn.Module, inputs: object, output: Tensor) -> None:
        unit = nn.functional.normalize(output.flatten(self.lead, -2), dim=-1)
        n = unit.shape[-2]
        assert self.sum is not None
        cosine = (unit.sum(-2).square().sum(-1) - n) / max(1, n * (n - 1))
        found = torch.stack((self.sum.norm(dim=-1), cosine), -1).view(-1, 2)
        self.found = tuple(CommonMode(*of_seed) for of_seed in found.tolist())


def warning(name: str, steps: Sequence[int], weights: Sequence[float]) -> str:
    """A sentence where a common part drowns what is a token's own; empty where none does."""
    where = placement(name)
    for step, weight in zip(steps, weights, strict=True):
        if (left := limit(where, weight)) < DROWNED:
            return (
                f"at step {step} the branches move all tokens in one direction, R = {weight:.1f} "
                f"beside the stream: what is a token's own is divided by {divisor(where)} = "
                f"{1 / left:.0f}; take a lower learning rate, or start the head's bias at the log "
                "of the text's token frequencies"
            )
    return ""
