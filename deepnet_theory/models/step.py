r"""Somebody's model on a batch: its final state F and its loss.

F is what enters the head. That is found in one forward pass: from the output back through
operations that have one activation each (a cast, a scale, a softcap) to the first product with a
parameter. Where the way ends before, at a residual sum say, the output itself is F.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.overrides import TorchFunctionMode

from deepnet_theory.definitions.arrays import on
from deepnet_theory.definitions.expression import Expression
from deepnet_theory.definitions.optimizer import Reference
from deepnet_theory.definitions.outcome import InputError, MissingExtraError
from deepnet_theory.models.factory import Made, tensors

HALVES = (torch.float16, torch.bfloat16)
CLASSES = 256  # of the fixed random head of a model that has none: bytes
PRODUCTS = {
    F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm, torch.addmm,
    Tensor.addmm, torch.bmm, Tensor.bmm, torch.einsum,
}  # fmt: skip
NAMED = ("logits", "last_hidden_state")  # of an output with several tensors, the one that is meant


class FinalState:
    """A model on one batch: its final state F (…, width) and its loss.

    F is what enters the head. The loss is the model's own where its output has one; else the mean
    cross-entropy, through its head or a fixed random one, of the next token where the inputs are
    token ids, of random targets where not. With ``drawn`` targets they are random whatever the
    model gives. The model is evaluated without dropout, in single precision where its own is lower.
    """

    def __init__(self, made: Made, generator: torch.Generator, drawn: bool = False) -> None:
        self.made, self.generator, self.drawn = made, generator, drawn
        made.module.eval()
        if any(p.dtype in HALVES for p in made.module.parameters()):
            made.module.float()

    @cached_property
    def random(self) -> tuple[Tensor | None, Tensor] | None:
        """The head and the targets in place of the model's own loss, None where it has one."""
        with torch.enable_grad():
            return self._random(*self._pass())

    def draw(self, generator: torch.Generator) -> None:
        """Take other random targets."""
        assert self.random is not None
        head, targets = self.random
        again = torch.randint(self.classes, targets.shape, generator=generator)
        self.random = head, again.to(targets.device)

    def sequence(self, index: int) -> FinalState:
        """The same on one sequence of the batch."""
        one = copy(self)
        one.made = self.made.sequence(index)
        if self.random is not None:
            one.random = self.random[0], self.random[1][index : index + 1]
        return one

    def __call__(self) -> Tensor:
        """F alone, (…, width), without gradients."""
        with torch.no_grad():
            return self._pass()[0]

    def with_loss(self) -> tuple[Tensor, Tensor]:
        """F and the loss, a number, to send gradients back from."""
        with torch.enable_grad():
            state, result = self._pass()
            if "random" not in vars(self):
                self.random = self._random(state, result)
            if self.random is None:
                loss = own_loss(result)
                assert loss is not None
                return state, loss
            head, targets = self.random
            output = _output(result)
            assert output is not None
            logits = output if head is None else output.float() @ head
            known = targets >= 0
            return state, F.cross_entropy(logits[known].float(), targets[known])

    def _pass(self) -> tuple[Tensor, Any]:
        """F, and what the model gives."""
        with _Watch(self.made) as watch:
            result = self.made()
        state = watch.entering(_output(result))
        if state is None:
            what = type(self.made.module).__name__
            raise InputError(f"the output of {what} holds no floating-point tensor")
        return state, result

    def _random(self, state: Tensor, result: Any) -> tuple[Tensor | None, Tensor] | None:
        """A head where the model has none, and targets: −1 where there is none."""
        if own_loss(result) is not None and not self.drawn:
            return None
        output, head, generator = _output(result), None, self.generator
        headless = output is None or output is state
        output = state if output is None else output
        classes = output.shape[-1]
        if headless:
            width, classes = classes, CLASSES
            head = torch.randn(width, CLASSES, generator=generator, dtype=torch.float32)
            head = (head * (2 / (width + CLASSES)) ** 0.5).to(output.device)
        self.classes, where = classes, output.shape[:-1]
        for ids in () if self.drawn else self.made.tensors():
            if ids.shape == where and not ids.is_floating_point() and int(ids.max()) < classes:
                following = torch.full_like(ids, -1, dtype=torch.long)
                following[..., :-1] = ids[..., 1:]
                return head, following
        return head, torch.randint(classes, where, generator=generator).to(output.device)


class _Watch(TorchFunctionMode):
    """Which operation made each tensor, while a forward pass runs."""

    def __init__(self, made: Made) -> None:
        super().__init__()
        # parameters, and what is made of nothing else, as a transpose
        self.weights = {id(p) for p in made.module.parameters()}
        self.states = {id(t) for t in made.tensors()}  # inputs, and all that is made with them
        self.made: dict[int, tuple[Any, list[Tensor], Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        operands = list(tensors((args, kwargs or {})))
        of_weights = bool(operands) and all(id(t) in self.weights for t in operands)
        of_states = any(id(t) in self.states for t in operands)
        for tensor in tensors(result):
            if not any(tensor is operand for operand in operands):
                self.made[id(tensor)] = func, operands, tensor
                if of_weights:
                    self.weights.add(id(tensor))
                if of_states:
                    self.states.add(id(tensor))
        return result

    def entering(self, output: Tensor | None) -> Tensor | None:
        """What enters the head that gives an output; the output itself where there is none."""
        now = output
        while (maker := self.made.get(id(now))) is not None:
            func, operands, _ = maker
            weights = [t for t in operands if t.dim() > 1 and id(t) in self.weights]
            states = [t for t in operands if id(t) in self.states]
            if len(states) != 1:
                break
            (now,) = states
            if func in PRODUCTS and weights:
                return now
        return output


def own_loss(result: Any) -> Tensor | None:
    """The loss that a model's output has: a number that gradients can be sent back from."""
    named = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    given = [named] if isinstance(named, Tensor) else [t for t in tensors(result) if t.dim() == 0]
    return next((t for t in given if t.numel() == 1 and t.is_floating_point()), None)


def _output(result: Any) -> Tensor | None:
    """The tensor of activations (…, width) that is meant by a model's output."""
    if isinstance(result, Mapping):
        result = [result[k] for k in (*NAMED, *result) if result.get(k) is not None]
    return next((t for t in tensors(result) if t.dim() > 1 and t.is_floating_point()), None)


def library_optimizer(reference: Reference) -> Callable[..., torch.optim.Optimizer]:
    """The reference's optimizer with its options; raises :class:`MissingExtraError`."""
    module, _, name = reference.target.partition(":")
    try:
        optimizer: Any = getattr(import_module(module), name)
    except ImportError:
        raise MissingExtraError(module.partition(".")[0], reference.requires or "verify") from None
    return partial(optimizer, **dict(reference.options))


# ---- an update on stacked parameters, a seed each ----


def polar(g: Tensor) -> Tensor:
    r"""The polar factor :math:`UV^\top` of each seed's :math:`g = U\Sigma V^\top`: (k, out, in).

    .. math:: UV^\top = (gg^\top)^{-1/2} g

    on singular values above the numerical rank's threshold: few tokens give low rank, and rounding.
    Where ``g`` is not finite, so is the result.
    """
    wide = g if g.shape[-2] <= g.shape[-1] else g.mT
    finite = wide.isfinite().all(-1).all(-1)[..., None, None]
    exact = torch.where(finite, wide, torch.zeros_like(wide)).double()
    threshold = max(g.shape[-2:]) * torch.finfo(g.dtype).eps
    squares, vectors = torch.linalg.eigh(exact @ exact.mT)
    kept = squares > threshold**2 * squares[..., -1:]
    inverse = torch.where(kept, squares, torch.ones_like(squares)).rsqrt() * kept
    factor = ((vectors * inverse[..., None, :]) @ vectors.mT @ exact).to(g.dtype)
    factor = torch.where(finite, factor, torch.full_like(wide, torch.nan))
    return factor if g.shape[-2] <= g.shape[-1] else factor.mT


def update(expression: Expression, eta: float, g: Tensor, theta: Tensor, **beside: Any) -> Tensor:
    """The Δθ of stacked parameters (k, out, in) or (k, n).

    ``beside`` are values of other names in the expression, such as running means.
    """
    if g.ndim == 2:  # a vector is a column
        columns = {n: x[..., None] if isinstance(x, Tensor) else x for n, x in beside.items()}
        return update(expression, eta, g[..., None], theta[..., None], **columns)[..., 0]
    change: Tensor = on(torch, expression.root, g, theta, polar, eta=eta, **beside)
    return change


def of_one_seed(x: Tensor) -> Tensor:
    """A parameter or its gradient as a stack of one; the axes of a convolution's input are one."""
    return x.reshape((1, *x.shape[:1], -1) if x.dim() > 2 else (1, *(x.shape or (1,))))
