"""Which matrices of somebody else's model are which, found by structure and by trial.

A recognised model is a list of parts, a part a list of layers, a layer a list of
:class:`Sublayer`; its matrices bear the spec's names, cut out of packed ones where needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from deepnet_theory.runtime.trying import adds_and_normalises, is_layer_norm, is_pre_ln_block
from deepnet_theory.spec.errors import Refusal

VALID = (
    "torch.nn.TransformerEncoder, TransformerDecoder and Transformer, BERT-like models "
    "(layers with attention.self, attention.output, intermediate, output) and GPT-2-like "
    "models (blocks with ln_1, attn.c_attn, attn.c_proj, ln_2, mlp.c_fc, mlp.c_proj)"
)


@dataclass(frozen=True)
class Block:
    """One matrix: ``length`` outputs of ``parameter`` from ``start``, with its own fans."""

    name: str  # the parameter's name in the model
    parameter: nn.Parameter
    axis: int  # the axis of the outputs: 0 in a Linear, 1 in a Conv1D
    start: int
    length: int

    @property
    def view(self) -> Tensor:
        """The block's entries, in place."""
        return self.parameter.detach().narrow(self.axis, self.start, self.length)

    @property
    def fans(self) -> tuple[int, int]:
        """fan_in and fan_out of this block alone."""
        return self.parameter.shape[1 - self.axis], self.length

    def __str__(self) -> str:
        if self.length == self.parameter.shape[self.axis]:
            return self.name
        span = f"{self.start}:{self.start + self.length}"
        return f"{self.name}[{span}]" if self.axis == 0 else f"{self.name}[:, {span}]"


@dataclass(frozen=True)
class Sublayer:
    """One residual sublayer: its kind, matrices by the spec's names, and biases."""

    kind: str
    matrices: dict[str, Block]
    biases: dict[str, nn.Parameter]


@dataclass(frozen=True)
class Layer:
    """One layer and the way in which α enters it (None where the placement has none)."""

    module: nn.Module
    sublayers: tuple[Sublayer, ...]
    scale: Callable[[tuple[float, ...]], None] | None
    alphas: tuple[float, ...] = ()  # as they are now


@dataclass(frozen=True)
class Recognised:
    """A model of known structure."""

    placement: str
    parts: list[list[Layer]]
    encoders: list[nn.TransformerEncoder] = field(default_factory=list)


def recognise(model: nn.Module) -> Recognised:
    """The structure of ``model``; raises :class:`Refusal` where it is not known."""
    names = {id(p): name for name, p in model.named_parameters()}
    if isinstance(model, (nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)):
        return _torch(model, names)
    bert = [m for m in model.modules() if isinstance(m, nn.ModuleList) and m and _is_bert(m[0])]
    gpt2 = [m for m in model.modules() if isinstance(m, nn.ModuleList) and m and _is_gpt2(m[0])]
    if len(bert) == 1 and not gpt2:
        return Recognised("post-ln", [[_bert(layer, names) for layer in bert[0]]])
    if len(gpt2) == 1 and not bert:
        return Recognised("pre-ln", [[_gpt2(block, names) for block in gpt2[0]]])
    raise Refusal(f"{type(model).__name__} is not recognised; recognised are {VALID}")


# ------------------------------------------------------------------------------- torch.nn


class ScaledLayer(nn.Module):
    """A layer whose α are saved and loaded with its weights.

    A strict ``load_state_dict`` fails where one of the two models has no α.
    """

    alphas: tuple[float, ...]

    def get_extra_state(self) -> Tensor:
        """The α of the sublayers, as a tensor that every format of files can hold."""
        return torch.tensor(self.alphas, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the α from a state_dict."""
        self.alphas = tuple(state.tolist())


class ScaledEncoderLayer(ScaledLayer, nn.TransformerEncoderLayer):
    """``torch.nn.TransformerEncoderLayer``, post-LN, with norm(αx + G(x))."""

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """As in the base class, without its fast path, which knows no α."""
        α, α_ff = self.alphas
        x: Tensor = src
        x = self.norm1(α * x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        x = self.norm2(α_ff * x + self._ff_block(x))
        return x


class ScaledDecoderLayer(ScaledLayer, nn.TransformerDecoderLayer):
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
        """As in the base class."""
        α, α_cross, α_ff = self.alphas
        own, cross = (tgt_mask, tgt_key_padding_mask), (memory_mask, memory_key_padding_mask)
        x: Tensor = tgt
        x = self.norm1(α * x + self._sa_block(x, *own, tgt_is_causal))
        x = self.norm2(α_cross * x + self._mha_block(x, memory, *cross, memory_is_causal))
        x = self.norm3(α_ff * x + self._ff_block(x))
        return x


_SCALED: dict[type, type] = {
    nn.TransformerEncoderLayer: ScaledEncoderLayer,
    nn.TransformerDecoderLayer: ScaledDecoderLayer,
}


def _torch(model: nn.Module, names: dict[int, str]) -> Recognised:
    names_of_stacks = ("encoder", "decoder") if isinstance(model, nn.Transformer) else ("",)
    stacks = [model.get_submodule(name) for name in names_of_stacks]
    parts = []
    first = None
    for stack in stacks:
        if type(stack) not in (nn.TransformerEncoder, nn.TransformerDecoder):
            raise Refusal(f"a {type(stack).__name__} of one's own is not recognised")
        layers = []
        for module in stack.get_submodule("layers").children():
            if type(module) not in (*_SCALED, *_SCALED.values()):
                raise Refusal(
                    f"{type(module).__name__} is not recognised as a layer; recognised are {VALID}"
                )
            if first is not None and module.norm_first != first:
                raise Refusal("post-LN and pre-LN layers are mixed in one model")
            first = bool(module.norm_first)
            layers.append(_torch_layer(module, names))
        parts.append(layers)
    encoders = [s for s in stacks if isinstance(s, nn.TransformerEncoder)]
    return Recognised("pre-ln" if first else "post-ln", parts, encoders)


def _torch_layer(module: nn.Module, names: dict[int, str]) -> Layer:
    sublayers = [_torch_attention("attention", module.self_attn, names)]  # type: ignore[arg-type]
    if isinstance(module, nn.TransformerDecoderLayer):
        sublayers.append(_torch_attention("cross", module.multihead_attn, names))
    sublayers.append(_feed_forward(module.linear1, module.linear2, names))  # type: ignore[arg-type]

    width = int(module.linear2.out_features)  # type: ignore[arg-type, union-attr]
    norms = [module.get_submodule(f"norm{i + 1}") for i in range(len(sublayers))]
    for norm in norms:
        if not is_layer_norm(norm, width):
            raise Refusal(f"{type(norm).__name__} in place of a LayerNorm of the layer")

    def scale(alphas: tuple[float, ...]) -> None:
        module.__class__ = _SCALED.get(type(module), type(module))
        module.alphas = alphas  # type: ignore[assignment]

    if module.norm_first:
        return Layer(module, tuple(sublayers), None)
    now = module.alphas if isinstance(module, ScaledLayer) else (1.0,) * len(norms)
    return Layer(module, tuple(sublayers), scale, now)


def _torch_attention(kind: str, m: nn.MultiheadAttention, names: dict[int, str]) -> Sublayer:
    if m.bias_k is not None:
        raise Refusal("attention with bias_k and bias_v has no law here")
    d = m.embed_dim
    if m._qkv_same_embed_dim:
        packed = _packed(m.in_proj_weight, 0, (d, d, d), names)
    else:
        packed = [_whole(w, 0, names) for w in (m.q_proj_weight, m.k_proj_weight, m.v_proj_weight)]
    matrices = dict(zip(("query", "key", "value"), packed, strict=True))
    matrices["output"] = _whole(m.out_proj.weight, 0, names)
    biases = [p for p in (m.in_proj_bias, m.out_proj.bias) if p is not None]
    return Sublayer(kind, matrices, {names[id(b)]: b for b in biases})


# ---------------------------------------------------------------------------- BERT, GPT-2


class ScaledInput(nn.Module):
    """A forward pre-hook on a module that computes norm(dense(h) + x): multiplies x by α.

    It is a child of that module, so that α is saved and loaded with the weights; a strict
    ``load_state_dict`` of another model misses it or has no place for it. Hugging Face's
    ``from_pretrained`` only warns of what has no place. So the norm's gain is saved as
    (1, width), which a model without α refuses as the wrong shape.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, module: nn.Module, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(h, x) → (h, αx)."""
        h, x = inputs
        return h, self.alpha * x

    def get_extra_state(self) -> Tensor:
        """α, as a tensor that every format of files can hold."""
        return torch.tensor(self.alpha, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take α from a state_dict."""
        self.alpha = float(state)

    def attach(self, end: nn.Module) -> None:
        """Become the child and the hook of ``end``."""
        end.add_module("residual_multiplier", self)
        end.register_forward_pre_hook(self)
        end.register_state_dict_post_hook(_save_gain)  # type: ignore[no-untyped-call]
        end.register_load_state_dict_pre_hook(_load_gain)  # type: ignore[no-untyped-call]


def _save_gain(end: nn.Module, state: dict[str, Tensor], prefix: str, metadata: object) -> None:
    gain = f"{prefix}LayerNorm.weight"
    state[gain] = state[gain].unsqueeze(0)


def _load_gain(end: nn.Module, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
    gain = f"{prefix}LayerNorm.weight"
    if gain in state:
        state[gain] = state[gain].flatten()


def _is_bert(layer: nn.Module) -> bool:
    return all(
        _has(layer, path)
        for path in (
            "attention.self.query", "attention.self.key", "attention.self.value",
            "attention.output.dense", "attention.output.LayerNorm",
            "intermediate.dense", "output.dense", "output.LayerNorm",
        )
    )  # fmt: skip


def _bert(layer: nn.Module, names: dict[int, str]) -> Layer:
    if not _is_bert(layer):
        raise Refusal(f"the layers differ: {type(layer).__name__} is not BERT-like")
    attentions = [("attention", layer.get_submodule("attention"))]
    if _has(layer, "crossattention"):
        attentions.append(("cross", layer.get_submodule("crossattention")))
    sublayers, ends = [], []
    for kind, attention in attentions:
        maps = {n: attention.get_submodule(f"self.{n}") for n in ("query", "key", "value")}
        maps["output"] = attention.get_submodule("output.dense")
        matrices = {n: _whole(m.weight, 0, names) for n, m in maps.items()}  # type: ignore[arg-type]
        ends.append(attention.get_submodule("output"))
        biases = {names[id(m.bias)]: m.bias for m in maps.values() if m.bias is not None}
        sublayers.append(Sublayer(kind, matrices, biases))  # type: ignore[arg-type]
    end = layer.get_submodule("output")
    dense = (layer.get_submodule("intermediate.dense"), end.get_submodule("dense"))
    sublayers.append(_feed_forward(*dense, names))
    ends.append(end)
    hooks = [_hook(e) for e in ends]
    now = tuple(1.0 if hook is None else hook.alpha for hook in hooks)
    for e, alpha in zip(ends, now, strict=True):
        if not adds_and_normalises(e, alpha):
            raise Refusal(f"{type(e).__name__} does not compute LayerNorm(dense(h) + x)")

    def scale(alphas: tuple[float, ...]) -> None:
        for e, hook, alpha in zip(ends, hooks, alphas, strict=True):
            if hook is None:
                ScaledInput(alpha).attach(e)
            else:
                hook.alpha = alpha

    return Layer(layer, tuple(sublayers), scale, now)


def _hook(module: nn.Module) -> ScaledInput | None:
    return next((h for h in module._forward_pre_hooks.values() if isinstance(h, ScaledInput)), None)


def _is_gpt2(block: nn.Module) -> bool:
    paths = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
    return all(_has(block, path) for path in paths)


def _gpt2(block: nn.Module, names: dict[int, str]) -> Layer:
    if not _is_gpt2(block) or _has(block, "crossattention"):
        raise Refusal(f"{type(block).__name__} has other sublayers than a GPT-2 block")
    if not is_pre_ln_block(block):
        raise Refusal(
            f"{type(block).__name__} does not compute x + attn(LayerNorm(x)) and then "
            "x + mlp(LayerNorm(x)), as a pre-LN block of GPT-2 does"
        )
    packed, output = block.get_submodule("attn.c_attn"), block.get_submodule("attn.c_proj")
    # Conv1D keeps (in, out), a Linear (out, in)
    axis = 0 if isinstance(packed, nn.Linear) else 1
    weight = packed.weight
    assert isinstance(weight, nn.Parameter)
    d = weight.shape[1 - axis]
    if weight.shape[axis] != 3 * d:
        raise Refusal(f"{names[id(weight)]} of shape {tuple(weight.shape)} is not a packed q/k/v")
    blocks = _packed(weight, axis, (d, d, d), names)
    matrices = dict(zip(("query", "key", "value"), blocks, strict=True))
    matrices["output"] = _whole(output.weight, axis, names)  # type: ignore[arg-type]
    biases = {names[id(m.bias)]: m.bias for m in (packed, output) if m.bias is not None}
    attention = Sublayer("attention", matrices, biases)  # type: ignore[arg-type]
    fc1, fc2 = block.get_submodule("mlp.c_fc"), block.get_submodule("mlp.c_proj")
    return Layer(block, (attention, _feed_forward(fc1, fc2, names, axis)), None)


# --------------------------------------------------------------------------------- common


def _feed_forward(fc1: nn.Module, fc2: nn.Module, names: dict[int, str], axis: int = 0) -> Sublayer:
    matrices = {"fc1": _whole(fc1.weight, axis, names), "fc2": _whole(fc2.weight, axis, names)}
    biases = {names[id(m.bias)]: m.bias for m in (fc1, fc2) if m.bias is not None}
    return Sublayer("ffn", matrices, biases)  # type: ignore[arg-type]


def _whole(parameter: object, axis: int, names: dict[int, str]) -> Block:
    if not isinstance(parameter, nn.Parameter):
        raise Refusal("a weight is not a plain parameter (quantised or parametrised?)")
    return _packed(parameter, axis, (parameter.shape[axis],), names)[0]


def _packed(
    parameter: nn.Parameter, axis: int, lengths: tuple[int, ...], names: dict[int, str]
) -> list[Block]:
    if id(parameter) not in names:
        raise Refusal("a weight is not a parameter of the model itself")
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    name = names[id(parameter)]
    return [Block(name, parameter, axis, s, n) for s, n in zip(starts, lengths, strict=True)]


def _has(module: nn.Module, path: str) -> bool:
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True
