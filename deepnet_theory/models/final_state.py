"""F of somebody's model, what enters its head, and the loss that the model is stepped on.

The head is found in one forward pass: from the output back through operations that have one
activation each (a cast, a scale, a softcap) to the first product with a parameter. Where the way
ends before, at a residual sum say, the output itself is F.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deepnet_theory.models.recording import tensors
from deepnet_theory.spec.errors import InputError, unknown

HALVES = (torch.float16, torch.bfloat16)
CLASSES = 256  # of the fixed random head of a model that has none: bytes
PRODUCTS = {
    F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm, torch.addmm,
    Tensor.addmm, torch.bmm, Tensor.bmm, torch.einsum,
}  # fmt: skip
NAMED = ("logits", "last_hidden_state")  # of an output with several tensors, the one that is meant

Inputs = tuple[tuple[Any, ...], Mapping[str, Any]]


class FinalState:
    """A model on one batch: its final state F (…, width) and its loss.

    F is what enters the head, or the output of the module called ``name``. The loss is the
    model's own where its output has one; else the mean cross-entropy, through its head or a fixed
    random one, of the next token where the inputs are token ids, of random targets where not.
    The model is evaluated without dropout, in single precision where its own is lower.
    """

    def __init__(
        self, model: nn.Module, inputs: Inputs, name: str | None, generator: torch.Generator
    ) -> None:
        self.model, self.inputs, self.name = model, inputs, name
        model.eval()
        if any(p.dtype in HALVES for p in model.parameters()):
            model.float()
        with torch.enable_grad(), _Watch(model, inputs) as watch:
            result = model(*inputs[0], **inputs[1])
        shown = _output(result)
        if shown is None:
            raise InputError(f"the output of {type(model).__name__} holds no floating-point tensor")
        self.head = None if name is not None else watch.head(shown)
        if name is not None and name not in dict(model.named_modules()):
            names = [child for child, _ in model.named_children()]
            raise unknown("module for the final state", name, names)
        self.random = None if own_loss(result) is not None else self._random(shown, generator)

    def __call__(self) -> Tensor:
        """F alone, (…, width), without gradients."""
        with torch.no_grad():
            return self._pass()[0]

    def with_loss(self) -> tuple[Tensor, Tensor]:
        """F and the loss, a number, to send gradients back from."""
        with torch.enable_grad():
            state, result = self._pass()
            own = own_loss(result)
            if own is not None:
                return state, own
            assert self.random is not None
            head, targets = self.random
            shown = _output(result)
            assert shown is not None
            logits = shown if head is None else shown.float() @ head
            known = targets >= 0
            return state, F.cross_entropy(logits[known].float(), targets[known])

    def _pass(self) -> tuple[Tensor, Any]:
        args, kwargs = self.inputs
        if self.name is not None:
            found: list[Any] = []
            module = self.model.get_submodule(self.name)
            handle = module.register_forward_hook(lambda _, __, out: found.append(out))
            try:
                result = self.model(*args, **kwargs)
            finally:
                handle.remove()
            state = _output(found[-1]) if found else None
        elif self.head is not None:
            with _Catch(self.head) as catch:
                result = self.model(*args, **kwargs)
            state = catch.state
        else:
            result = self.model(*args, **kwargs)
            state = _output(result)
        if state is None:
            raise InputError(
                f"the module {self.name!r} gives no floating-point tensor in the forward pass"
            )
        return state, result

    def _random(self, shown: Tensor, generator: torch.Generator) -> tuple[Tensor | None, Tensor]:
        """A head where the model has none, and targets: −1 where there is none."""
        head = None
        if self.head is None:
            width = shown.shape[-1]
            head = torch.randn(width, CLASSES, generator=generator, dtype=torch.float32)
            head = (head * (2 / (width + CLASSES)) ** 0.5).to(shown.device)
        classes = CLASSES if head is not None else shown.shape[-1]
        where = shown.shape[:-1]
        for ids in tensors(self.inputs):
            if ids.shape == where and not ids.is_floating_point() and int(ids.max()) < classes:
                following = torch.full_like(ids, -1, dtype=torch.long)
                following[..., :-1] = ids[..., 1:]
                return head, following
        return head, torch.randint(classes, where, generator=generator).to(shown.device)


class _Watch(TorchFunctionMode):
    """Which operation made each tensor, while a forward pass runs."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        # parameters, and what is made of nothing else, as a transpose
        self.weights = {id(p) for p in model.parameters()}
        self.states = {id(t) for t in tensors(inputs)}  # inputs, and all that is made with them
        self.made: dict[int, tuple[int, Any, list[Tensor], Tensor]] = {}
        self.calls = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        operands = list(tensors((args, kwargs or {})))
        of_weights = bool(operands) and all(id(t) in self.weights for t in operands)
        of_states = any(id(t) in self.states for t in operands)
        for tensor in tensors(result):
            if not any(tensor is operand for operand in operands):
                self.made[id(tensor)] = (self.calls, func, operands, tensor)
                if of_weights:
                    self.weights.add(id(tensor))
                if of_states:
                    self.states.add(id(tensor))
        self.calls += 1
        return result

    def head(self, output: Tensor) -> tuple[int, int] | None:
        """The call that is the head, and which of its operands is F; None where there is none."""
        at = output
        while (found := self.made.get(id(at))) is not None:
            call, func, operands, _ = found
            weights = [t for t in operands if t.dim() > 1 and id(t) in self.weights]
            states = [t for t in operands if id(t) in self.states]
            if len(states) != 1:
                return None
            if func in PRODUCTS and weights:
                return call, next(i for i, t in enumerate(operands) if t is states[0])
            at = states[0]
        return None


class _Catch(TorchFunctionMode):
    """The activation that enters one call of a forward pass, as :meth:`_Watch.head` tells it."""

    def __init__(self, head: tuple[int, int]) -> None:
        super().__init__()
        self.call, self.operand = head
        self.calls = 0
        self.state: Tensor | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if self.calls == self.call:
            self.state = list(tensors((args, kwargs or {})))[self.operand]
        self.calls += 1
        return func(*args, **(kwargs or {}))


def own_loss(result: Any) -> Tensor | None:
    """The loss that a model's output has: a number that gradients can be sent back from."""
    named = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    found = [named] if isinstance(named, Tensor) else [t for t in tensors(result) if t.dim() == 0]
    return next((t for t in found if t.numel() == 1 and t.is_floating_point()), None)


def _output(result: Any) -> Tensor | None:
    """The tensor of activations (…, width) that is meant by a model's output."""
    if isinstance(result, Mapping):
        result = [result[k] for k in (*NAMED, *result) if result.get(k) is not None]
    found = (t for t in tensors(result) if t.dim() > 1 and t.is_floating_point())
    return next(found, None)
