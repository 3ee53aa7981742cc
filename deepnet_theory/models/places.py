"""Where a model's forward pass has a place for α, and how a model is left as it was.

Layers of ``torch.nn`` take it, and modules called with (h, x) that normalise their residual sum.
Reading the forward pass again judges it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.reading import FoundSublayer
from deepnet_theory.models.factory import require_module, require_weights

LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
NAME = "residual_multiplier"
MUTABLE = (dict, list, set)


class Scaled(nn.Module):
    """Hooks that put α before x in norm(x + G(x)): each such norm is given (α − 1)x more.

    The first x is argument number ``which`` of the ``owner``, the next one what a norm gives. As a
    child of the owner it saves and loads α with the weights, strictly. ``from_pretrained`` only
    warns of what has no place: so a ``gain`` is saved as (1, width), which fits no model without α.
    """

    def __init__(self, owner: nn.Module, norms: Sequence[nn.Module], which: int, gain: str) -> None:
        super().__init__()
        self.alphas, self.which, self.gain = (1.0,) * len(norms), which, gain
        self.x: Tensor | None = None
        owner.add_module(NAME, self)
        owner.register_forward_pre_hook(self.enter, with_kwargs=True)
        owner.register_forward_hook(self.end)
        for index, norm in enumerate(norms):
            norm.register_forward_pre_hook(partial(self.scale, index))
            norm.register_forward_hook(self.go_on)
        # torch writes an attribute to what it is given here, which a method has no place for
        owner.register_state_dict_post_hook(partial(Scaled.save_gain, self))  # type: ignore[no-untyped-call]
        owner.register_load_state_dict_pre_hook(partial(Scaled.load_gain, self))  # type: ignore[no-untyped-call]

    def enter(self, owner: object, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.x = (*inputs, *keywords.values())[self.which]

    def scale(self, index: int, norm: object, inputs: tuple[Tensor]) -> Tensor:
        """x + G(x) → αx + G(x)."""
        assert self.x is not None
        return inputs[0] + (self.alphas[index] - 1) * self.x

    def go_on(self, norm: object, inputs: object, x: Tensor) -> None:
        self.x = x

    def end(self, *_: object) -> None:
        self.x = None  # no activation outlives the forward pass

    def get_extra_state(self) -> Tensor:
        """The α, as a tensor that every format of files can hold."""
        return torch.tensor(self.alphas, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the α from a state_dict."""
        self.alphas = tuple(state.flatten().tolist())

    def save_gain(self, owner: object, state: dict[str, Tensor], prefix: str, *_: object) -> None:
        """(width,) → (1, width)."""
        if self.gain:
            state[prefix + self.gain] = state[prefix + self.gain].unsqueeze(0)

    def load_gain(self, owner: object, state: dict[str, Tensor], prefix: str, *_: object) -> None:
        """(1, width) → (width,)."""
        if self.gain and (gain := prefix + self.gain) in state:
            state[gain] = state[gain].flatten()


class Places:
    """Where a model's sublayers take their α, found by their parameters."""

    def __init__(self, model: nn.Module, sublayers: Sequence[FoundSublayer]) -> None:
        self.model = model
        self.owners: dict[str, list[tuple[int, str]]] = {}  # sublayers and gains of norms, by path
        layers = [f"{name}." if name else "" for name, m in model.named_modules()
                  if type(m) in LAYERS]  # fmt: skip
        for index, s in enumerate(sublayers):
            names = [matrix.name for matrix in s.matrices]
            gain = next((n.gain for n in s.norms if n.where == "sum" and n.gain), None)
            if gain and names:
                inside = [path for path in layers if all(n.startswith(path) for n in names)]
                # else the innermost module that holds the branch's last matrix and the norm
                both = zip(names[-1].split("."), gain.split("."), strict=False)
                path = "".join(f"{a}." for a, _ in takewhile(lambda ab: ab[0] == ab[1], both))
                self.owners.setdefault((inside or [path])[-1], []).append((index, gain))
        self.whole = sum(map(len, self.owners.values())) == len(sublayers)

    def multiply(self, ratios: Sequence[float]) -> None:
        for path, rows in self.owners.items():
            owner = self.model.get_submodule(path.removesuffix("."))
            hook = owner._modules.get(NAME)
            if not isinstance(hook, Scaled):
                norms = [self.model.get_submodule(gain.rpartition(".")[0]) for _, gain in rows]
                of_torch = type(owner) in LAYERS
                gain = "" if of_torch else rows[0][1].removeprefix(path)
                hook = Scaled(owner, norms, 0 if of_torch else 1, gain)
            hook.alphas = tuple(a * ratios[i] for a, (i, _) in zip(hook.alphas, rows, strict=True))
        for module in self.model.modules():
            if isinstance(module, nn.TransformerEncoder):
                module.use_nested_tensor = False  # its fast path for padding knows no α
        if "torch._dynamo" in sys.modules:  # compiled code does not look for new hooks
            torch.compiler.reset()


def own_module(model: nn.Module) -> nn.Module:
    """The module that a compiled one stands for; :class:`Refusal` for one spread over processes."""
    whole = require_module(getattr(model, "_orig_mod", model))
    require_weights(whole)
    for name, module in whole.named_modules():
        # fully_shard makes a class of its own, and shards that are not gathered are DTensors
        kinds = (*type(module).__mro__, *map(type, module.parameters(recurse=False)))
        spread = isinstance(module, nn.parallel.DistributedDataParallel)
        if spread or any(kind.__module__.startswith("torch.distributed") for kind in kinds):
            raise Refusal(
                f"the parameters of {name or 'the model'} ({type(module).__name__}) are spread "
                "over processes: apply the constants to the model before it is sharded or wrapped"
            )
    return whole


# ------------------------------------------------------------------------------ as it was before


@contextmanager
def restored_on_error(model: nn.Module) -> Iterator[Callable[[Tensor], None]]:
    """Within it a model is changed; whatever ends it early leaves the model as it was, to the bit.

    Classes, attributes and buffers are kept; what is yielded keeps a weight about to change.
    """
    modules = [
        (m, type(m), dict(vars(m)), [copy(v) for v in vars(m).values() if isinstance(v, MUTABLE)])
        for m in model.modules()
    ]
    tensors = {buffer: buffer.detach().clone() for buffer in model.buffers()}

    def keep(tensor: Tensor) -> None:
        if tensor not in tensors:
            tensors[tensor] = tensor.detach().clone()

    try:
        yield keep
    except BaseException:
        for module, kind, attributes, contents in modules:
            module.__class__ = kind
            vars(module).clear()
            vars(module).update(attributes)
            mutable = (v for v in attributes.values() if isinstance(v, MUTABLE))
            for value, inner in zip(mutable, contents, strict=True):
                value.clear()  # the same object: handles of hooks refer to it
                (value.extend if isinstance(value, list) else value.update)(inner)
        for tensor, old in tensors.items():
            if not torch.equal(tensor, old):  # one that takes no writes has none to take back
                tensor.detach().copy_(old)
        raise
