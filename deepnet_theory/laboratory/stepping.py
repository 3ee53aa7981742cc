"""Optimizer steps on stacked weights, a seed each: one update, one step, many steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.expression import Expression, Node, OperatorAlgebra, fold
from deepnet_theory.definitions.optimizer import Optimizer, Running, optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models.step import library_optimizer

RATE = 2.0**-10  # where the caller sets none
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

    # torch.optim would take the norm of a whole stack for that of one matrix, which is wrong for
    # LAMB and LARS. The libraries' optimizers step single seeds only, to check the expression.

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
        return _kept_at_zero(left * right, left, right)

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


def update(
    expression: Expression,
    eta: Tensor | float,
    g: Tensor,
    theta: Tensor,
    beside: Mapping[str, Any] | None = None,
) -> Tensor:
    """The Δθ of stacked parameters (k, out, in) or (k, n), ``eta`` a number or (k,).

    ``beside`` are values of other names in the expression, such as running means.
    """
    algebra = UpdateAlgebra(eta, g, theta)
    algebra.values |= beside or {}
    value = fold(expression.root, algebra)
    return torch.broadcast_to(torch.as_tensor(value, dtype=g.dtype, device=g.device), g.shape)


def backward(losses: Tensor) -> None:
    """Send gradients back from a loss, or from the losses (k,) of seeds, which never meet."""
    losses.sum().backward()  # type: ignore[no-untyped-call]


@contextmanager
def arriving(
    parameters: Iterable[nn.Parameter], take: Callable[[nn.Parameter, Tensor], None]
) -> Iterator[None]:
    """Within it ``take`` receives each parameter's gradient when it is there; it is freed then."""

    @torch.no_grad()
    def hook(parameter: nn.Parameter) -> None:
        gradient, parameter.grad = parameter.grad, None
        assert gradient is not None
        take(parameter, gradient)

    handles = [
        p.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        for p in parameters
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def only(model: nn.Module, parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Within this context gradients are computed for ``parameters`` alone."""
    wanted = {id(p) for p in parameters}
    before = [(p, p.requires_grad) for p in model.parameters()]
    try:
        for p, _ in before:
            p.requires_grad_(id(p) in wanted)
        yield
    finally:
        for p, required in before:
            p.requires_grad_(required)
            p.grad = None


def running_of(optimizer: Optimizer) -> Running:
    """How the optimizer goes on; raises :class:`Refusal` where only its first step is known."""
    if optimizer.running is not None:
        return optimizer.running
    raise Refusal(
        f"{optimizer.name!r} is known here by its first step alone; many steps can be taken with: "
        + ", ".join(name for name, o in optimizers().items() if o.running or o.reference)
    )


class Expressed(torch.optim.Optimizer):
    """Steps by the expression of an update, each parameter by itself at its group's rate.

    By that of the first step again and again, or with ``running`` means as the optimizer goes on.
    """

    def __init__(
        self, params: Any, update: Optimizer, lr: float = RATE, running: bool = False
    ) -> None:
        super().__init__(params, {"lr": lr})
        self.epsilon = update.epsilon or 0.0
        self.running = running_of(update) if running else None
        self.expression = update.expression if self.running is None else self.running.expression

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                # (1, out, in): one seed; the axes of a convolution's input are one
                shape = (1, *p.shape[:1], -1) if p.dim() > 2 else (1, *(p.shape or (1,)))
                g, theta = p.grad.reshape(shape), p.detach().reshape(shape)
                change = update(self.expression, group["lr"], g, theta, self._means(p, g))
                p.add_(change.reshape(p.shape))

    def _means(self, p: nn.Parameter, g: Tensor) -> dict[str, Any]:
        """The means of a parameter's gradients, this one taken in, and the optimizer's epsilon."""
        running, values = self.running, dict[str, Any]()
        if running is None:
            return values
        state = self.state[p]
        steps = state["steps"] = state.get("steps", 0) + 1
        for name, decay, new in (("m", running.first, g), ("v", running.second, g * g)):
            if name in running.expression.names:
                kept = state[name] = decay * state.get(name, 0.0) + new
                weights = 1.0 if running.summed else sum(decay**s for s in range(steps))
                values[name] = kept / weights
        return {**values, "epsilon": self.epsilon}


def going(optimizer: Optimizer) -> Callable[..., torch.optim.Optimizer]:
    """What takes many steps of an optimizer, made of parameters, or groups of them, and ``lr``.

    By its expression, or by its library's. Raises :class:`Refusal` where neither goes on, and
    :class:`MissingExtraError`.
    """
    if optimizer.running is None and optimizer.reference is not None:
        return library_optimizer(optimizer.reference)
    running_of(optimizer)
    return partial(Expressed, update=optimizer, running=True)
