"""Where a model's forward pass has a place for α, and how a model is left as it was.

A layer of ``torch.nn`` takes a class of ours; a module called with (h, x) that normalises its
residual sum takes a hook that multiplies x. Reading the forward pass again judges it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import takewhile

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.reading import Sublayer
from deepnet_theory.models.factory import require_weights


class Scaled(nn.Module):
    """A module whose α are saved and loaded with the weights, strictly."""

    alphas: tuple[float, ...]

    def get_extra_state(self) -> Tensor:
        """The α, as a tensor that every format of files can hold."""
        return torch.tensor(self.alphas, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the α from a state_dict."""
        self.alphas = tuple(state.flatten().tolist())


class ScaledEncoderLayer(Scaled, nn.TransformerEncoderLayer):
    """``torch.nn.TransformerEncoderLayer``, post-LN, with norm(αx + G(x))."""

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Without torch's fast path, which knows no α."""
        α, α_ff = self.alphas
        x: Tensor = src
        x = self.norm1(α * x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        x = self.norm2(α_ff * x + self._ff_block(x))
        return x


class ScaledDecoderLayer(Scaled, nn.TransformerDecoderLayer):
    """``torch.nn.TransformerDecoderLayer``, post-LN, with norm(αx + G(x))."""

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        α, α_cross, α_ff = self.alphas
        among, cross = (tgt_mask, tgt_key_padding_mask), (memory_mask, memory_key_padding_mask)
        x: Tensor = tgt
        x = self.norm1(α * x + self._sa_block(x, *among, tgt_is_causal))
        x = self.norm2(α_cross * x + self._mha_block(x, memory, *cross, memory_is_causal))
        x = self.norm3(α_ff * x + self._ff_block(x))
        return x


SCALED: dict[type, type] = {
    nn.TransformerEncoderLayer: ScaledEncoderLayer,
    nn.TransformerDecoderLayer: ScaledDecoderLayer,
}


class ScaledInput(Scaled):
    """A forward pre-hook on a module that computes norm(G(h) + x): multiplies x by α.

    As a child of that module it saves and loads α with the weights. ``from_pretrained`` only warns
    of what has no place: so the norm's ``gain`` is saved as (1, width), the wrong shape for a
    model without α.
    """

    def __init__(self, end: nn.Module, alpha: float, gain: str) -> None:
        super().__init__()
        self.alphas, self.gain = (alpha,), gain
        end.add_module("residual_multiplier", self)
        end.register_forward_pre_hook(self)
        # torch writes an attribute to what it is given here, which a method has no place for
        end.register_state_dict_post_hook(partial(ScaledInput.save_gain, self))  # type: ignore[no-untyped-call]
        end.register_load_state_dict_pre_hook(partial(ScaledInput.load_gain, self))  # type: ignore[no-untyped-call]

    def forward(self, end: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """(h, x) → (h, αx)."""
        h, x = inputs
        return h, self.alphas[0] * x

    def save_gain(self, end: object, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """(width,) → (1, width)."""
        state[prefix + self.gain] = state[prefix + self.gain].unsqueeze(0)

    def load_gain(self, end: object, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """(1, width) → (width,)."""
        if (gain := prefix + self.gain) in state:
            state[gain] = state[gain].flatten()


class Places:
    """Where a model's sublayers take their α, found by their parameters."""

    def __init__(self, model: nn.Module, sublayers: Sequence[Sublayer]) -> None:
        self.model = model
        self.layers: dict[nn.Module, list[int]] = {}  # torch.nn's, with their sublayers' indices
        self.ends: dict[int, tuple[nn.Module, str]] = {}  # with the norm's gain in them
        ours = (*SCALED, *SCALED.values())
        known = [(n, m) for n, m in model.named_modules() if type(m) in ours]
        for index, s in enumerate(sublayers):
            names = [matrix.name for matrix in s.matrices]
            inside = [m for n, m in known if all(x.startswith(f"{n}." if n else "") for x in names)]
            gain = next((n.gain for n in s.norms if n.where == "sum" and n.gain), None)
            if inside:
                self.layers.setdefault(inside[-1], []).append(index)
            elif gain and names:
                # the innermost module that holds the branch's last matrix and the norm on the sum
                both = zip(names[-1].split("."), gain.split("."), strict=False)
                path = ".".join(a for a, _ in takewhile(lambda ab: ab[0] == ab[1], both))
                inner = gain.removeprefix(f"{path}." if path else "")
                self.ends[index] = model.get_submodule(path), inner
        self.whole = len(self.ends) + sum(map(len, self.layers.values())) == len(sublayers)

    def multiply(self, ratios: Sequence[float]) -> None:
        for layer, indices in self.layers.items():
            now = getattr(layer, "alphas", (1.0,) * len(indices))
            layer.__class__ = SCALED.get(type(layer), type(layer))
            layer.alphas = tuple(a * ratios[i] for a, i in zip(now, indices, strict=True))  # type: ignore[assignment]
        for index, (end, gain) in self.ends.items():
            hooks = end._forward_pre_hooks.values()
            hook = next((h for h in hooks if isinstance(h, ScaledInput)), None)
            if hook is None:
                ScaledInput(end, ratios[index], gain)
            else:
                hook.alphas = (hook.alphas[0] * ratios[index],)
        for module in self.model.modules():
            if isinstance(module, nn.TransformerEncoder):
                module.use_nested_tensor = False  # its fast path for padding knows no α
        if "torch._dynamo" in sys.modules:  # compiled code does not look for new hooks
            torch.compiler.reset()


def own_module(model: nn.Module) -> nn.Module:
    """The module that a compiled one stands for; :class:`Refusal` for one spread over processes."""
    whole = getattr(model, "_orig_mod", model)
    assert isinstance(whole, nn.Module)
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
        (
            module,
            type(module),
            {
                k: (v, copy(v) if isinstance(v, dict | list | set) else None)
                for k, v in vars(module).items()
            },
        )
        for module in model.modules()
    ]
    tensors = {buffer: buffer.detach().clone() for buffer in model.buffers()}

    def keep(tensor: Tensor) -> None:
        if tensor not in tensors:
            tensors[tensor] = tensor.detach().clone()

    try:
        yield keep
    except BaseException:
        for module, kind, attributes in modules:
            module.__class__ = kind
            vars(module).clear()
            for name, (value, contents) in attributes.items():
                if contents is not None:  # the same object: handles of hooks refer to it
                    value.clear()
                    (value.extend if isinstance(value, list) else value.update)(contents)
                vars(module)[name] = value
        for tensor, old in tensors.items():
            if not torch.equal(tensor, old):  # one that takes no writes has none to take back
                tensor.detach().copy_(old)
        raise
