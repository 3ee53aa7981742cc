"""The branches G(x) of a residual sublayer: attention and feed-forward.

The names of the matrices are those of ``definitions/sublayers``; a weight is (out, in), the
transpose of the spec's matrix, whose rows are tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from deepnet_theory.definitions.constants import Architecture
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.sublayer import Norm, sublayer
from deepnet_theory.runtime.linear import Linear, Make, Normalisation, Site, through

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
}

Gain = Callable[[str], float]  # of a matrix by its name


@contextmanager
def math_attention() -> Iterator[None]:
    """Compute attention by plain products, which forward-mode derivatives (JVPs) need."""
    with sdpa_kernel(SDPBackend.MATH):
        yield


class ResidualBranch(nn.Module):
    """The linear maps of the spec's matrices; ``inner`` is a norm before the last map."""

    def __init__(
        self, kind: str, make: Make, site: Site, gain: Gain, sizes: dict[str, int], norm: Norm
    ) -> None:
        super().__init__()
        self.spec = spec = sublayer(kind)
        if spec.experts > 1:
            raise Refusal(
                f"no mixture of experts is built here: {kind!r} is for a model of your own, with "
                "audit, apply_, parameter_groups and measure"
            )
        self.inner: nn.Module = nn.Identity()
        if spec.inner is not None:
            self.inner = Normalisation(norm, sizes[spec.inner.size], make, site, prefix="inner_")
        vectors = {v.name: v.role for v in spec.vectors}
        for m in spec.matrices:
            bias = f"{m.name}_bias"
            linear = Linear(
                # keys and values of grouped heads are narrower than the width
                sizes[m.fan_in], sizes.get(m.name, sizes[m.fan_out]), make, site, m.name, m.role,
                gain=gain(m.name),
                bias=(bias, vectors[bias]) if bias in vectors else None,
            )  # fmt: skip
            self.add_module(m.name, linear)


class Attention(ResidualBranch):
    """softmax(s·q kᵀ/√h) v · output, over the tokens themselves or over a memory (``crosses``).

    s is ``scores``, 1 but where the head size h is not that of the model's base. What a norm takes
    in the spec's formula, each head's queries, say, is divided by its root mean square. Where the
    formula has a ``latent`` matrix, queries, keys and values are made of that vector, here as wide
    as the model; where it has a ``gate``, sigmoid(x gate) multiplies what enters the output.

    Source: Vaswani et al., arXiv 1706.03762, §3.2; Ainslie et al., arXiv 2305.13245 (grouped keys
    and values); Henry et al., arXiv 2010.04245 (norms); Qiu et al., arXiv 2505.06708 (gates).
    """

    latent: Linear
    gate: Linear
    query: Linear
    key: Linear
    value: Linear
    output: Linear

    def __init__(
        self, kind: str, a: Architecture, make: Make, site: Site, gain: Gain, norm: Norm,
        causal: bool, scores: float = 1.0,
    ) -> None:  # fmt: skip
        sizes = {"d": a.width, "key": a.kv_width, "value": a.kv_width}
        super().__init__(kind, make, site, gain, sizes, norm)
        self.crosses = self.spec.reads_memory
        named = {m.name for m in self.spec.matrices}
        self.compresses, self.gates = "latent" in named, "gate" in named
        self.head_width = a.width // a.heads
        self.scale = scores / math.sqrt(self.head_width)
        self.grouped = a.kv_width != a.width
        self.causal = causal and not self.crosses

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """(…, tokens, width) → the same; a cross-attention reads ``memory`` (…, keys, width)."""
        q, k, v = self.heads(x, memory)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, enable_gqa=self.grouped, scale=self.scale
        )  # (batch, heads, tokens, head_width), batch = k·batch
        y = y.transpose(1, 2).reshape(x.shape)
        y = torch.sigmoid(self.gate(x)) * y if self.gates else self.inner(y)
        result: Tensor = self.output(y)
        return result

    def heads(self, x: Tensor, memory: Tensor | None = None) -> list[Tensor]:
        """(…, tokens, width) → queries, keys, values, (batch, heads, tokens, head_width) each."""
        maps = self.query, self.key, self.value
        if self.crosses and memory is not None:
            made = [self.query(x), *through(memory, self.key, self.value)]
        else:
            entering = self._normed(self.latent, self.latent(x)) if self.compresses else x
            made = through(entering, *maps)
        return [self._normed(m, self.split(y)) for m, y in zip(maps, made, strict=True)]

    def _normed(self, linear: Linear, y: Tensor) -> Tensor:
        normed = linear.descriptions["weight"].name in self.spec.normed
        return F.rms_norm(y, y.shape[-1:]) if normed else y

    def split(self, y: Tensor) -> Tensor:
        """(…, tokens, heads·head_width) → (batch, heads, tokens, head_width), k in the batch."""
        return y.reshape(
            -1, y.shape[-2], y.shape[-1] // self.head_width, self.head_width
        ).transpose(1, 2)


class _Hidden(ResidualBranch):
    def __init__(
        self, kind: str, a: Architecture, make: Make, site: Site, gain: Gain, norm: Norm
    ) -> None:
        super().__init__(kind, make, site, gain, {"d": a.width, "hidden": a.hidden_width}, norm)
        self.activation = ACTIVATIONS[a.activation]
        self.dropout = nn.Dropout(a.dropout) if a.dropout else nn.Identity()


class FeedForward(_Hidden):
    """φ(x fc1 + b₁) fc2 + b₂."""

    fc1: Linear
    fc2: Linear

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """(…, width) → (…, hidden) → (…, width)."""
        result: Tensor = self.fc2(self.dropout(self.inner(self.hidden(x))))
        return result

    def hidden(self, x: Tensor) -> Tensor:
        """(…, width) → (…, hidden)."""
        return self.activation(self.fc1(x))


class SquaredFeedForward(FeedForward):
    """φ(x fc1 + b₁)² fc2 + b₂, each entry squared.

    Source: So et al., arXiv 2109.08668.
    """

    def hidden(self, x: Tensor) -> Tensor:
        return super().hidden(x).square()


class GatedFeedForward(_Hidden):
    """(silu(x gate) ⊙ x up) down; where the formula has a router, times sigmoid(x router).

    Source: Shazeer, arXiv 2002.05202.
    """

    gate: Linear
    up: Linear
    down: Linear

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """(…, width) → (…, hidden) → (…, width)."""
        gate, up = through(x, self.gate, self.up)
        hidden = F.silu(gate) * up
        if (router := self._modules.get("router")) is not None:
            hidden = torch.sigmoid(router(x)) * hidden
        result: Tensor = self.down(self.dropout(self.inner(hidden)))
        return result


# a kind is listed where its forward pass is written: a new file of definitions/sublayers has none
# yet
_MODULES: dict[str, type[Attention] | type[_Hidden]] = {
    "attention": Attention,
    "attention-gated": Attention,
    "attention-qk-norm": Attention,
    "attention-sub-ln": Attention,
    "attention-latent": Attention,
    "cross": Attention,
    "ffn": FeedForward,
    "ffn-relu2": SquaredFeedForward,
    "ffn-sub-ln": FeedForward,
    "ffn-swiglu": GatedFeedForward,
    "ffn-swiglu-gated": GatedFeedForward,
    "ffn-swiglu-sub-ln": GatedFeedForward,
}
KINDS = tuple(_MODULES)


def branch(
    kind: str, a: Architecture, make: Make, site: Site, gain: Gain, norm: Norm, causal: bool,
    scores: float,
) -> ResidualBranch:  # fmt: skip
    module = _MODULES.get(kind, FeedForward)  # which refuses a mixture of experts
    if issubclass(module, Attention):
        return module(kind, a, make, site, gain, norm, causal, scores)
    return module(kind, a, make, site, gain, norm)
