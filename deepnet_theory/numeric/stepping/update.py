"""The optimizer's own expression on stacked weights: one update per seed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from deepnet_theory.spec.expression import Expression, OperatorAlgebra, fold


def norm(x: Tensor) -> Tensor:
    """The Frobenius (for vectors Euclidean) norm of each seed's parameter: (k, …) → (k, 1, …)."""
    size: Tensor = torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim)), keepdim=True)
    return size


def numel(x: Tensor) -> int:
    """The number of entries of one seed's parameter."""
    return x[0].numel()


def rms(x: Tensor) -> Tensor:
    """The root mean square of each seed's entries: (k, …) → (k, 1, …)."""
    return norm(x) / math.sqrt(numel(x))


def inner_product(a: Tensor, b: Tensor) -> Tensor:
    """Each seed's inner product of two parameters that lie alike in memory: (k, …) → (k,)."""
    if a.ndim == 3 and not a.is_contiguous():
        a, b = a.mT, b.mT  # flattened as they lie, without a copy
    product: Tensor = torch.linalg.vecdot(a.flatten(1), b.flatten(1))
    return product


def polar(g: Tensor) -> Tensor:
    r"""The polar factor :math:`UV^\top` of each seed's :math:`g = U\Sigma V^\top`: (k, out, in).

    Only singular values above the numerical rank's threshold count, since the gradient of a
    matrix from few tokens has low rank and the rest is rounding. A vector is a matrix of one
    row, whose polar factor is its direction. Where ``g`` is not finite, so is the result.

    .. math:: UV^\top = (gg^\top)^{-1/2} g
    """
    if g.ndim == 2:
        size = norm(g)
        return torch.where(size > 0, g / size, torch.zeros_like(g))
    wide = g if g.shape[-2] <= g.shape[-1] else g.mT
    exact = wide.double()  # the Gram matrix squares the condition number
    gram = exact @ exact.mT
    finite = gram.isfinite().all(-1).all(-1)[:, None, None]
    squares, vectors = torch.linalg.eigh(torch.where(finite, gram, torch.zeros_like(gram)))
    threshold = max(g.shape[-2:]) * torch.finfo(g.dtype).eps
    kept = squares > threshold**2 * squares[:, -1:]
    inverse = torch.where(kept, squares, torch.ones_like(squares)).rsqrt() * kept
    factor = ((vectors * inverse[:, None, :]) @ vectors.mT @ exact).to(g.dtype)
    factor = torch.where(finite, factor, torch.full_like(factor, torch.nan))
    return factor if g.shape[-2] <= g.shape[-1] else factor.mT


class UpdateAlgebra(OperatorAlgebra[Any]):
    """Values are numbers, tensors (k, 1, …) and tensors (k, …); none mixes two seeds."""

    def __init__(self, eta: Tensor | float, g: Tensor, theta: Tensor) -> None:
        if isinstance(eta, Tensor):
            eta = eta.reshape(-1, *[1] * (g.ndim - 1))
        self.like = g
        self.values: dict[str, Any] = {"eta": eta, "g": g, "theta": theta}

    def number(self, value: Fraction) -> float:
        return float(value)

    def name(self, name: str) -> Any:
        return self.values[name]

    def power(self, base: Any, exponent: Fraction) -> Any:
        return base ** float(exponent)

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        first, *rest = (self._tensor(a) for a in arguments)
        match function:
            case "sign" | "abs" | "sqrt" | "log":
                return getattr(torch, function)(first)
            case "norm":
                return norm(self._whole(first))
            case "rms":
                return rms(self._whole(first))
            case "numel":
                return numel(self._whole(first))
            case "polar":
                return polar(self._whole(first))
            case "max" | "min":
                combine = torch.maximum if function == "max" else torch.minimum
                for other in rest:
                    first = combine(first, other)
                return first
            case "clip":
                return torch.minimum(torch.maximum(first, rest[0]), rest[1])
            case _:
                raise KeyError(function)

    def _tensor(self, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value
        return torch.as_tensor(value, dtype=self.like.dtype, device=self.like.device)

    def _whole(self, value: Tensor) -> Tensor:
        """A scalar stands for a parameter all of whose entries are that scalar."""
        return value if value.shape == self.like.shape else value.expand_as(self.like)


def update(expression: Expression, eta: Tensor | float, g: Tensor, theta: Tensor) -> Tensor:
    """The first-step update Δθ of stacked parameters, each seed by itself.

    ``g`` and ``theta`` have shape (k, out, in) or (k, n); ``eta`` is a number or (k,), one
    learning rate per seed.
    """
    value = fold(expression.root, UpdateAlgebra(eta, g, theta))
    return torch.broadcast_to(torch.as_tensor(value, dtype=g.dtype, device=g.device), g.shape)
