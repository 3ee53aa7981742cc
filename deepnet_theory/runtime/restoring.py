"""Somebody's model, changed as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.spec.errors import Refusal


def own_module(model: nn.Module) -> nn.Module:
    """The module that a compiled one stands for; :class:`Refusal` for one spread over processes."""
    own = getattr(model, "_orig_mod", model)
    assert isinstance(own, nn.Module)
    for name, module in own.named_modules():
        # fully_shard makes a class of its own, and shards that are not gathered are DTensors
        kinds = (*type(module).__mro__, *map(type, module.parameters(recurse=False)))
        spread = isinstance(module, nn.parallel.DistributedDataParallel)
        if spread or any(kind.__module__.startswith("torch.distributed") for kind in kinds):
            raise Refusal(
                f"the parameters of {name or 'the model'} ({type(module).__name__}) are spread "
                "over processes: apply the constants to the model before it is sharded or wrapped"
            )
    return own


class Before:
    """What a model was: its modules' classes and attributes, and the tensors that are kept.

    A weight takes memory, and only what is about to change is kept; buffers are all kept, since
    a forward pass may write to them.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = [
            (module, type(module), {k: (v, _contents(v)) for k, v in vars(module).items()})
            for module in model.modules()
        ]
        self._tensors: dict[Tensor, Tensor] = {}
        for buffer in model.buffers():
            self.keep(buffer)

    def keep(self, tensor: Tensor) -> None:
        """Keep the entries of a tensor that is about to change."""
        if tensor not in self._tensors:
            self._tensors[tensor] = tensor.detach().clone()

    def restore(self) -> None:
        """Make the model what it was, to the bit."""
        for module, kind, attributes in self._modules:
            module.__class__ = kind
            vars(module).clear()
            for name, (value, contents) in attributes.items():
                if contents is not None:  # the same object: handles of hooks refer to it
                    value.clear()
                    (value.extend if isinstance(value, list) else value.update)(contents)
                vars(module)[name] = value
        for tensor, old in self._tensors.items():
            if not torch.equal(tensor, old):  # one that takes no writes has none to take back
                tensor.detach().copy_(old)


def _contents(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list | set) else None


@contextmanager
def restored_on_error(model: nn.Module) -> Iterator[Before]:
    """Within it a model is changed; whatever ends it early leaves the model as it was."""
    before = Before(model)
    try:
        yield before
    except BaseException:
        before.restore()
        raise
