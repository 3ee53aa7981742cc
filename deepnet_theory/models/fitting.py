"""Somebody's model beside constants: what each parameter is to them, and where α has a place.

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
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.reading import UNKNOWN, Matrix, Reading, Sublayer
from deepnet_theory.definitions.subject import (
    INSIDE,
    Wanted,
    norms_of,
    placed_forms,
    require_equation,
    rows_of,
    without_law,
)
from deepnet_theory.definitions.sublayer import Role, sublayer
from deepnet_theory.models.factory import require_weights
from deepnet_theory.runtime.linear import Description

EXACT = 1e-3  # of an α that code computes
TIED = "tied_embedding"  # a table of tokens that is the head too


def fit(reading: Reading, c: Constants) -> Wanted:
    """The constants as rows of a model that can take them; :class:`Refusal` where it cannot."""
    if reading.skips:
        raise Refusal(reading.skips[0])
    for s in reading.sublayers:
        for m in s.matrices:
            if m.role == UNKNOWN and s.why:
                raise Refusal(f"a branch of the {s.stack} was not understood: {s.why}")
            if m.role == UNKNOWN:
                raise Refusal(
                    f"the role of {m.where} was not understood; say it, as roles={{'value': "
                    f"{m.name!r}}}"
                )
            if m.computed or m.factor:
                how = "a low-rank factor" if m.factor else "computed into another matrix"
                raise Refusal(f"{m.where} is {how} in the forward pass, which has no law here")
    if reading.notes:
        raise Refusal(f"the model was not understood: {reading.notes[0]}")
    if why := without_law(reading, placed_forms(reading)):
        raise Refusal(why)
    rule = rows_of(reading, c)
    require_equation(reading, rule)
    for name, layers in (rule.layers or {}).items():
        if layers != reading.layers[name]:
            raise Refusal(f"the {name} has {reading.layers[name]} layers, the constants {layers}")
    return rule


# -------------------------------------------------------------------------- what each one is


def describe(reading: Reading, rule: Wanted) -> dict[str, tuple[Description, ...]]:
    """What the constants call every parameter of the model, by name; several of a packed one."""
    described: dict[str, list[Description]] = {}

    def add(name: str | None, description: Description) -> None:
        if name is not None and description not in described.setdefault(name, []):
            described[name].append(description)

    for s, row in ((reading.sublayers[i], rule.sublayers[i]) for i in reading.distinct):
        site = (row.part, s.layer, row.index, s.kind)
        roles = {m.name: m.role for m in sublayer(s.kind).matrices}
        for m in s.matrices:
            role = roles[m.role]
            add(m.name, Description(*site, role, m.role, fan_in=m.fan_in, fan_out=m.fan_out))
            add(m.bias, Description(*site, *_bias(s.kind, m.role)))
        for name in s.biases:
            add(name, Description(*site, *_bias(s.kind, s.matrices[-1].role)))
        learnt = Description(*site, Role.RESIDUAL_GAIN, s.multiplier, 1 / row.alpha)
        add(s.learnt_parameter, learnt)
        for norm in s.norms:
            inner = norm.where == "within" and sublayer(s.kind).inner is not None
            prefix = "inner_" if inner else ""
            add(norm.gain, Description(*site, Role.NORM_GAIN, f"{prefix}gain"))
            add(norm.bias, Description(*site, Role.NORM_BIAS, f"{prefix}bias", 0.0))
    for norm in reading.norms:
        part = rule.sublayers[-1 if norm.where == "final" else 0].part
        add(norm.gain, Description(part, role=Role.NORM_GAIN, name="gain"))
        add(norm.bias, Description(part, role=Role.NORM_BIAS, name="bias", gain=0.0))
    for part, names in (("embedding", reading.embeddings), ("head", reading.head)):
        for name in names:
            if name not in described:
                # its own multiplier is not known: as it stands, none
                called = "token_embedding" if part == "embedding" else part
                called = TIED if name in reading.head and part == "embedding" else called
                add(name, Description(part, role=Role(part), name=called))
    return {name: tuple(packed) for name, packed in described.items()}


def _bias(kind: str, matrix: str) -> tuple[Role, str, float]:
    name = f"{matrix}_bias"
    named = {v.name: v.role for v in sublayer(kind).vectors}
    return named.get(name, Role.INNER_BIAS), name, 0.0


def blocks(model: nn.Module, m: Matrix) -> Iterator[Tensor]:
    """The entries of one matrix, in place: runs of outputs of its parameter."""
    parameter = model.get_parameter(m.name).detach()
    for start, end in m.outputs:
        yield parameter.narrow(m.axis, start, end - start)


def multiplier(model: nn.Module, name: str) -> Tensor:
    """A learnt multiplier in place: a parameter, or entries of it (``gates[2]``, ``b[4:8]``)."""
    owner, _, entry = name.rstrip("]").partition("[")
    parameter = model.get_parameter(owner).detach()
    if not entry:
        return parameter
    start, _, end = entry.partition(":")
    return parameter[int(start) : int(end)] if end else parameter[int(start)]


def where(s: Sublayer) -> str:
    return f"{s.stack} layer {s.layer}, {s.kind}"


# --------------------------------------------------------------------- values that are multiplied

TOLERANCE = 1e-2  # of a size; a weighted mean of equal values is right to the type's rounding
RAISED = {"gate": 1e4, "query": 30.0, "key": 30.0}  # a sigmoid of the first is 1
Fill = Callable[[Tensor], Tensor]


@torch.no_grad()
def multiplied_values(
    model: nn.Module, run: Callable[[], Any], sublayers: Sequence[Sublayer]
) -> str:
    """An attention that multiplies its values by a number, and which; no word where none does.

    All tokens' values are made one token's in the forward pass: a softmax then hands on just
    these, at the size that they have before the output matrix. A gate of what is mixed is opened,
    and scores are raised until a sink, one more logit whose weight meets no value, takes nothing.
    Only maps that are modules are tried.
    """
    handles, training = [], [m for m in model.modules() if m.training]
    sizes: dict[int, dict[str, float]] = {}  # of the values that are made, and of what enters

    def owner(m: Matrix) -> nn.Module:
        return model.get_submodule(m.name.rpartition(".")[0])

    for index, s in enumerate(sublayers):
        maps = {m.role: m for m in s.matrices}
        if not {"value", "output"} <= maps.keys() or INSIDE in norms_of(s):
            continue
        sizes[index] = {}
        fills: dict[str, Fill] = {"value": partial(_keep, sizes[index], "made")}
        for role, number in RAISED.items():
            fills[role] = partial(torch.full_like, fill_value=number)
        for role in fills.keys() & maps.keys():
            hook = partial(_refill, maps[role].outputs, fills[role])
            handles.append(owner(maps[role]).register_forward_hook(hook))
        entering = partial(_entering, sizes[index])
        handles.append(owner(maps["output"]).register_forward_pre_hook(entering))
    model.eval()
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
        for m in training:
            m.training = True
    for index, size in sizes.items():
        ratio = size.get("entered", 1.0) / size["made"] if size.get("made") else 1.0
        if "entered" in size and abs(ratio - 1) > TOLERANCE:
            return (
                f"{where(sublayers[index])} multiplies its values by {ratio:.3g}, "
                "and no rule has a law for that"
            )
    return ""


def _refill(
    outputs: Sequence[tuple[int, int]], fill: Fill, _: nn.Module, __: object, out: object
) -> Tensor | None:
    """A map's output with these runs of every token as ``fill`` makes them of the first token's."""
    if not isinstance(out, Tensor) or out.shape[-1] < outputs[-1][1]:
        return None
    rows = torch.cat([torch.arange(*run, device=out.device) for run in outputs])
    return out.index_copy(-1, rows, fill(out.flatten(0, -2)[0, rows]).expand(*out.shape[:-1], -1))


def _keep(size: dict[str, float], what: str, x: Tensor) -> Tensor:
    size[what] = float(x.float().square().mean().sqrt())
    return x


def _entering(size: dict[str, float], _: nn.Module, inputs: tuple[Any, ...]) -> None:
    if inputs and isinstance(inputs[0], Tensor):
        _keep(size, "entered", inputs[0])


# --------------------------------------------------------------------------------- a place for α


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
