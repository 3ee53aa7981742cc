r"""An optimizer's first update of torch parameters, by its expression.

A stack of k models has parameters (k, …): nothing mixes two of them. The libraries' optimizers
would take the norm of a whole stack for that of one matrix.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.expression import Expression, Node, OperatorAlgebra, fold

SKETCHED = 64  # columns that show the range of a matrix of lower rank


def norm(x: Tensor) -> Tensor:
    """The Frobenius (for vectors Euclidean) norm of each seed's parameter: (k, …) → (k, 1, …)."""
    size: Tensor = torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim)), keepdim=True)
    return size


def numel(x: Tensor) -> int:
    return x[0].numel()


def rms(x: Tensor) -> Tensor:
    """The root mean square of each seed's entries: (k, …) → (k, 1, …)."""
    return norm(x) / math.sqrt(numel(x))


def polar(g: Tensor) -> Tensor:
    r"""The polar factor :math:`UV^\top` of each seed's :math:`g = U\Sigma V^\top`: (k, out, in).

    .. math:: UV^\top = (gg^\top)^{-1/2} g

    on singular values above the numerical rank's threshold: few tokens give low rank, and rounding.
    A vector is a matrix of one row. Where ``g`` is not finite, so is the result.
    """
    if g.ndim == 2:
        size = norm(g)
        return torch.where(size > 0, g / size, torch.zeros_like(g))
    wide = g if g.shape[-2] <= g.shape[-1] else g.mT
    finite = wide.isfinite().all(-1).all(-1)[:, None, None]
    exact = torch.where(finite, wide, torch.zeros_like(wide)).double()
    threshold = max(g.shape[-2:]) * torch.finfo(g.dtype).eps
    basis = _range(exact, threshold)
    if basis is None:
        factor = _inverse_root(exact, threshold)
    else:
        factor = basis @ _inverse_root(basis.mT @ exact, threshold)
    factor = torch.where(finite, factor.to(g.dtype), torch.full_like(wide, torch.nan))
    return factor if g.shape[-2] <= g.shape[-1] else factor.mT


def _inverse_root(wide: Tensor, threshold: float) -> Tensor:
    """The polar factor of a wide (k, m, n) from its Gram matrix, in double precision."""
    squares, vectors = torch.linalg.eigh(wide @ wide.mT)
    kept = squares > threshold**2 * squares[:, -1:]
    inverse = torch.where(kept, squares, torch.ones_like(squares)).rsqrt() * kept
    factor: Tensor = (vectors * inverse[:, None, :]) @ vectors.mT @ wide
    return factor


def _range(wide: Tensor, threshold: float) -> Tensor | None:
    """An orthonormal basis (k, m, SKETCHED) of large matrices of low rank, or None."""
    if wide.shape[-2] < 4 * SKETCHED:
        return None
    generator = torch.Generator(wide.device).manual_seed(0)
    columns = torch.randn(
        wide.shape[-1], SKETCHED, generator=generator, device=wide.device
    ).double()
    basis: Tensor = torch.linalg.qr(wide @ columns).Q
    left = torch.linalg.vector_norm(wide - basis @ (basis.mT @ wide))
    return basis if left <= threshold * torch.linalg.vector_norm(wide) else None


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

    def multiply(self, left: Any, right: Any) -> Any:
        both = isinstance(left, Tensor) and isinstance(right, Tensor)  # else one is finite
        return _kept_at_zero(left * right, left, right) if both else left * right

    def divide(self, left: Any, right: Any) -> Any:
        return _kept_at_zero(left / right, left)

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
            case "rows":
                return self.like.shape[1]
            case "columns":
                return math.prod(self.like.shape[2:])
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

    def blocks(self, inner: Node, rows: int) -> Tensor:
        """Blocks are seeds of their own; fewer rows that are left over are one more."""
        out = self.like.shape[1]
        whole = out - out % min(rows, out)
        cuts = [(0, whole, min(rows, out)), (whole, out, out - whole)]
        return torch.cat([self._block(inner, *cut) for cut in cuts if cut[2]], 1)

    def _block(self, inner: Node, start: int, end: int, rows: int) -> Tensor:
        seeds, shape = self.like.shape[0], self.like.shape
        count = (end - start) // rows

        def cut(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if value.shape == shape:
                return value[:, start:end].reshape(seeds * count, rows, *shape[2:])
            return value.repeat_interleave(count, 0) if value.shape[:1] == (seeds,) else value

        block = UpdateAlgebra(1.0, cut(self.like), self.like)
        block.values = {name: cut(value) for name, value in self.values.items()}
        value = block._whole(block._tensor(fold(inner, block)))
        return value.reshape(seeds, end - start, *shape[2:])

    def _tensor(self, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value
        return torch.as_tensor(value, dtype=self.like.dtype, device=self.like.device)

    def _whole(self, value: Tensor) -> Tensor:
        """A scalar stands for a parameter with all entries equal to it."""
        return value if value.shape == self.like.shape else value.expand_as(self.like)


def _kept_at_zero(value: Any, *factors: Any) -> Any:
    """A value, 0 where a factor is: 0/0 is 0, so that a row without a gradient takes no step."""
    for factor in factors:
        if isinstance(factor, Tensor):
            value = torch.where(factor == 0, torch.zeros_like(value), value)
    return value


def update(expression: Expression, eta: Tensor | float, g: Tensor, theta: Tensor) -> Tensor:
    """The first-step Δθ of stacked parameters (k, out, in) or (k, n), ``eta`` a number or (k,)."""
    value = fold(expression.root, UpdateAlgebra(eta, g, theta))
    return torch.broadcast_to(torch.as_tensor(value, dtype=g.dtype, device=g.device), g.shape)


def update_of(expression: Expression, eta: float, p: nn.Parameter) -> Tensor:
    """The first-step Δθ of one model's parameter with a gradient, as it lies there."""
    assert p.grad is not None
    # (1, out, in): a stack of one; the axes of a convolution's input are one
    shape = (1, *p.shape[:1], -1) if p.dim() > 2 else (1, *(p.shape or (1,)))
    g, theta = p.grad.reshape(shape), p.detach().reshape(shape)
    return update(expression, eta, g, theta).reshape(p.shape)
