"""Norms that the package itself does not build; imported where they are put into a stack."""

from __future__ import annotations

from torch import Tensor, nn


class OtherNorm(nn.Module):
    """BatchNorm, InstanceNorm, RMSNorm or LayerNorm without parameters on (k, batch, tokens, d)."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        """(k, batch, tokens, d) → the same; every seed is a model of its own."""
        if self.kind == "rms":
            return x / x.square().mean(-1, keepdim=True).sqrt()
        axes = {"layer": (-1,), "batch": (1, 2), "instance": (2,)}[self.kind]
        centred = x - x.mean(axes, keepdim=True)
        return centred / centred.square().mean(axes, keepdim=True).sqrt()
