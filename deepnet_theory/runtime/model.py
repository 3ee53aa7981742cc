"""The whole model: embedding, parts of layers of residual sublayers, head; one line an equation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants, PartConstants, Placed
from deepnet_theory.definitions.expression import Algebra, fold
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.sublayer import Norm, Role, norm
from deepnet_theory.runtime.branches import ResidualBranch, branch
from deepnet_theory.runtime.linear import Described, Linear, Make, Normalisation, Site, normalise

# --------------------------------------------------------------------------- the residual equation


Map = Callable[[Tensor], Tensor]
# x is what the branch G reads, s the sum that it adds to;
# add(y, s, alpha=α) is y + αs in one pass
LINES: dict[str, Callable[[Tensor, Tensor, float, Sequence[Map], Map], Tensor]] = {
    "norm(alpha*x + branch(x))": lambda x, s, α, norm, G: norm[0](torch.add(G(x), s, alpha=α)),
    "x + branch(x)": lambda x, s, α, norm, G: s + G(x),
    "x + branch(norm(x))": lambda x, s, α, norm, G: s + G(norm[0](x)),
    "x + branch(norm(x))/alpha": lambda x, s, α, norm, G: torch.add(s, G(norm[0](x)), alpha=1 / α),
    "x + norm(branch(x))/alpha": lambda x, s, α, norm, G: torch.add(s, norm[0](G(x)), alpha=1 / α),
    "x + norm(branch(norm(x)))/alpha": (
        lambda x, s, α, norm, G: torch.add(s, norm[1](G(norm[0](x))), alpha=1 / α)
    ),
}


class Residual(Described):
    """One residual sublayer: a branch, its norms in order of application, and α.

    ``norm_epsilon`` multiplies ε by place. Branches of one sum read the same x, each through its
    own norms, x + Σ G_i(norm_i(x)): a ``parallel`` one adds to the sum before it, an ``open`` one
    is followed by such, and a norm on the sum follows the last alone.

    Source: DeepNet, arXiv 2203.00555, §3.
    """

    def __init__(
        self, placement: Placement, norm: Norm, branch: ResidualBranch, alpha: float, width: int,
        make: Make, site: Site, dropout: float = 0.0,
        norm_epsilon: Mapping[str, float] | None = None, parallel: bool = False, open: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.parallel, self.on_sum = parallel, placement.normalises_sum
        if (parallel or open) and placement.equation not in LINES:
            raise InputError(
                f"parallel branches are built for {'; '.join(LINES)}, not for {placement.equation}"
            )
        self.placement, self.alpha, self.site = placement, alpha, site
        self.branch = branch
        self.norms = nn.ModuleList(
            Normalisation(norm, width, make, site, (norm_epsilon or {}).get(where, 1.0))
            for where in placement.places
            if not (open and where == "sum")
        )
        self.dropout = nn.Dropout(dropout) if dropout else None

    def forward(
        self, x: Tensor, memory: Tensor | None = None, total: Tensor | None = None
    ) -> Tensor:
        """x_l → x_{l+1}, (…, tokens, width) → the same; ``total`` is the sum to be joined."""

        def G(x: Tensor) -> Tensor:
            y: Tensor = self.branch(x, memory)
            return y if self.dropout is None else self.dropout(y)

        line, norms, α = LINES.get(self.placement.equation), list(self.norms), self.alpha
        if line is None:
            left = iter(norms)
            maps = {"branch": G, "norm": lambda of: next(left)(of)}
            equation = Algebra({"x": x, "alpha": α}, maps)
            result: Tensor = fold(self.placement.expression.root, equation)
            return result
        if self.on_sum:
            α = α if total is None else 1.0  # the first branch has multiplied x
            norms = norms or [nn.Identity()]  # the last one normalises the sum
        return line(x, x if total is None else total, α, norms, G)


# --------------------------------------------------------------------------------------- the model


class Embedding(Described):
    """x₀ = norm(√d · E[token] + positions), so that ‖x₀‖ = √width for every token.

    A lookup has both fans d: entries of variance 1/d whatever the vocabulary, and a tied head
    gives logits of variance 1. Source: Vaswani et al., arXiv 1706.03762, §3.4, §3.5; the norm is
    our own.
    """

    def __init__(self, c: Constants, make: Make) -> None:
        super().__init__()
        width = c.architecture.width
        self.width, self.norm = width, norm(c.norm)
        weight, fans = make.empty(c.architecture.vocab, width), (width, width)
        site, role = Site("embedding"), Role.EMBEDDING
        self.weight = self.own("weight", weight, site, role, "embedding", fans=fans)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens) → (…, width); with seeds (k, …), or one text for all, → (k, …, width)."""
        w = self.weight
        if w.dim() == 2:
            x = F.embedding(tokens, w)
        else:
            k = w.shape[0]
            tokens = tokens.expand(k, *tokens.shape) if tokens.dim() == 2 else tokens
            x = w[torch.arange(k, device=tokens.device).view(k, 1, 1), tokens]
        positions = sinusoids(tokens.shape[-1], self.width, x)
        return normalise(math.sqrt(self.width) * x + positions, self.norm)


def sinusoids(tokens: int, width: int, like: Tensor) -> Tensor:
    """Sinusoidal positions (tokens, width): sines in the first half, cosines in the second."""
    half = (width + 1) // 2
    t = torch.arange(tokens, device=like.device, dtype=torch.float64)
    rate = torch.arange(half, device=like.device, dtype=torch.float64) / half
    angle = t[:, None] * 1e4**-rate  # (tokens, half)
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :width].to(like.dtype)


class Layer(nn.Sequential):  # FSDP of torch 2.11 wraps no ModuleList
    """A group of residual sublayers: the unit that checkpointing, FSDP and DDP wrap."""

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """(…, tokens, width) → the same."""
        read = x
        for residual in self:
            if residual.parallel:
                x = residual(read, memory, x)
            else:
                read, x = x, residual(x, memory)
        return x


class StackPart(nn.Module):
    """Layers, then a final norm."""

    def __init__(
        self, part: PartConstants, c: Constants, make: Make,
        layers: Sequence[Sequence[Placed]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        a, kind_of_norm = c.architecture, norm(c.norm)
        self.layers = nn.ModuleList()
        if layers is None:
            layers = [[Placed(c.the_placement, s) for s in part.sublayers]] * part.layers
        for index, sublayers in enumerate(layers):
            layer = Layer()
            for position, (where, s) in enumerate(sublayers):
                site = Site(part.name, index, position, s.kind)
                inner = branch(s.kind, a, make, site, s.gain, kind_of_norm, part.causal, c.scores)
                layer.append(
                    Residual(
                        where, kind_of_norm, inner, s.alpha, a.width, make, site,
                        dropout=a.dropout, norm_epsilon=s.norm_epsilon, parallel=s.parallel,
                        open=any(p.constants.parallel for p in sublayers[position + 1 :][:1]),
                    )
                )  # fmt: skip
            self.layers.append(layer)
        self.final_norm = None
        if c.the_placement.final_norm:
            self.final_norm = Normalisation(kind_of_norm, a.width, make, Site(part.name))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """(…, tokens, width) → the same, final norm included."""
        for layer in self.layers:
            x = layer(x, memory)
        return x if self.final_norm is None else self.final_norm(x)


class Model(nn.Module):
    """Token ids → logits; ``embed``, ``body`` and ``logits`` are usable one by one.

    With two parts the first reads ``memory``, and the second attends to its output. ``layers`` are
    those of a part by its name, where the constants do not say them.
    """

    def __init__(
        self, constants: Constants, make: Make,
        layers: Mapping[str, Sequence[Sequence[Placed]]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        a = constants.architecture
        self.constants, self.seeds = constants, make.seeds
        self.embed = Embedding(constants, make)
        gain = constants.parameter(constants.parts[-1].name, None, "head", Role.HEAD).gain
        self.head = Linear(
            a.width, a.vocab, replace(make, bias=True), Site("head"), "head", Role.HEAD, gain,
            ("head_bias", Role.HEAD_BIAS) if a.head_bias else None,
        )  # fmt: skip
        self.tie_()
        self.parts = nn.ModuleDict(
            {
                p.name: StackPart(p, constants, make, (layers or {}).get(p.name))
                for p in constants.parts
            }
        )

    def tie_(self) -> None:
        """Make a tied head the embedding again, as ``to_empty`` cuts them apart."""
        if self.constants.architecture.tied_head:
            self.head.weight = self.embed.weight

    def body(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """Hidden states → the stack's output F before the head.

        ``x`` is (batch, tokens, width), with seeds (k, batch, tokens, width) or (k, tokens, width);
        ``memory`` is the *input* of the encoder, alike.
        """
        *before, last = self.parts.values()
        if before and memory is None:
            raise InputError("an encoder-decoder needs its memory: the encoder's input")
        if memory is not None and not before:
            raise InputError("a stack of one part takes no memory")
        output: Tensor = last(x, *(encoder(memory) for encoder in before))
        return output

    def forward(self, tokens: Tensor, memory: Tensor | None = None) -> Tensor:
        """Token ids (batch, tokens) → logits, both with a leading k for seeds; ``memory`` alike."""
        x = self.embed(tokens)  # (batch, tokens, width)
        return self.logits(self.body(x, None if memory is None else self.embed(memory)))

    def logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.constants.head_multiplier * x)
        return logits

    def residuals(self) -> Iterator[Residual]:
        """Every residual sublayer in the order of the forward pass, each with its ``site``."""
        for module in self.parts.modules():
            if isinstance(module, Residual):
                yield module
