"""The residual equation: one visible line a placement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.runtime.branches import ALONE, Branch, Context
from deepnet_theory.runtime.linear import Described, Make, Norm, Site
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import OperatorAlgebra, fold
from deepnet_theory.spec.norm import Norm as NormSpec
from deepnet_theory.spec.placement import RESIDUAL_GAIN, Placement
from deepnet_theory.spec.sublayer import Role

Map = Callable[[Tensor], Tensor]
# x is what the branch G, its learnt multiplier included, reads, s the sum that it adds to;
# add(y, s, alpha=α) is y + αs in one pass
LINES: dict[str, Callable[[Tensor, Tensor, float, Sequence[Map], Map], Tensor]] = {
    "norm(alpha*x + branch(x))": lambda x, s, α, norm, G: norm[0](torch.add(G(x), s, alpha=α)),
    "x + branch(x)": lambda x, s, α, norm, G: s + G(x),
    "x + branch(norm(x))": lambda x, s, α, norm, G: s + G(norm[0](x)),
    "x + branch(norm(x))/alpha": lambda x, s, α, norm, G: torch.add(s, G(norm[0](x)), alpha=1 / α),
    "x + learnt(1/alpha)*branch(norm(x))": lambda x, s, α, norm, G: s + G(norm[0](x)),
    "x + norm(branch(x))/alpha": lambda x, s, α, norm, G: torch.add(s, norm[0](G(x)), alpha=1 / α),
    "x + norm(branch(norm(x)))/alpha": (
        lambda x, s, α, norm, G: torch.add(s, norm[1](G(norm[0](x))), alpha=1 / α)
    ),
}


class Residual(Described):
    """One residual sublayer: a branch, its norms in order of application, and α.

    ``residual_gain`` starts a learnable scalar on the branch that the equation does not name (None:
    none); ``norm_epsilon`` multiplies ε by place. Branches of one sum read the same x, each through
    its own norms, x + Σ G_i(norm_i(x)): a ``parallel`` one adds to the sum before it, an ``open``
    one is followed by such, and a norm on the sum stands behind the last alone.

    Source: DeepNet, arXiv 2203.00555, §3; Bachlechner et al., arXiv 2003.04887 (the scalar).
    """

    residual_gain: nn.Parameter | None
    stream_gain: nn.Parameter | None

    def __init__(
        self, placement: Placement, norm: NormSpec, branch: Branch, alpha: float, width: int,
        make: Make, site: Site, dropout: float = 0.0, residual_gain: float | None = None,
        norm_epsilon: Mapping[str, float] | None = None, parallel: bool = False, open: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.parallel, self.on_sum = parallel, placement.normalises_sum
        if (parallel or open) and placement.equation not in LINES:
            raise InputError(
                f"parallel branches are built for {'; '.join(LINES)}, not for {placement.equation}"
            )
        self.streams = placement.streams
        if self.streams and self.streams.norms != ("sum" in placement.places):
            raise InputError(
                f"several streams are built with one norm on them at most: {placement.equation}"
            )
        self.placement, self.alpha, self.site = placement, alpha, site
        self.branch = branch
        own = norm_epsilon or {}
        self.norms = nn.ModuleList(
            Norm(norm, width, make, site, own.get(where, 1.0))
            for where in placement.places
            if not (open and where == "sum")
        )
        self.dropout = nn.Dropout(dropout) if dropout else None
        self.residual_gain = self.stream_gain = None
        starts = dict(zip(placement.learnt, placement.starts(alpha), strict=True))
        self.learnt = tuple(starts)  # in the order of application
        if residual_gain is not None and RESIDUAL_GAIN not in starts:
            starts[RESIDUAL_GAIN] = residual_gain
        for name, start in starts.items():
            entries = make.empty(width if placement.per_channel else 1)
            setattr(self, name, self.own(name, entries, site, Role.RESIDUAL_GAIN, name, start))

    def forward(
        self, x: Tensor, memory: Tensor | None = None, context: Context = ALONE,
        total: Tensor | None = None, others: tuple[Tensor, ...] = (),
    ) -> Any:  # fmt: skip
        """x_l → x_{l+1}, (…, tokens, width) → the same; ``total`` is the sum to be joined.

        Of several streams x is the first; they come as a tuple.
        """

        def G(x: Tensor) -> Tensor:
            y: Tensor = self.branch(x, memory, context)
            y = y if self.dropout is None else self.dropout(y)
            if self.residual_gain is None or (line is None and RESIDUAL_GAIN in self.learnt):
                return y
            return y * spread(self.residual_gain, y)

        if self.streams is not None:
            own: dict[str, Any] = dict(zip(self.streams.names, (x, *others), strict=True))
            own["alpha"] = self.alpha
            algebra = Equation(own, self.norms)
            own["branch"] = G(fold(self.streams.read, algebra))
            return tuple(fold(after, algebra) for after in self.streams.after)
        line, norms, α = LINES.get(self.placement.equation), list(self.norms), self.alpha
        if line is None:
            learnt = [spread(getattr(self, name), x) for name in self.learnt]
            names = {"x": x, "alpha": α}
            return fold(self.placement.expression.root, Equation(names, norms, G, learnt))
        if self.on_sum:
            α = α if total is None else 1.0  # the first branch has multiplied x
            norms = norms or [nn.Identity()]  # the last one normalises the sum
        return line(x, x if total is None else total, α, norms, G)


def first_stream(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    """A sublayer's output; of several streams the first."""
    return output if isinstance(output, Tensor) else output[0]


def spread(gain: Tensor, over: Tensor) -> Tensor:
    """A multiplier, a number or one a channel, for each seed of a value with rows of channels."""
    return gain.view(gain.shape[0], *(1 for _ in over.shape[2:]), -1) if gain.dim() > 1 else gain


class Equation(OperatorAlgebra[Any]):
    """Interprets a residual equation; its values are tensors, and the numbers they are times."""

    def __init__(
        self, names: Mapping[str, Any], norms: Iterable[nn.Module],
        branch: object = None, learnt: Sequence[Tensor] = (),
    ) -> None:  # fmt: skip
        self.names = names
        self.norms, self.branch, self.learnt = iter(norms), branch, iter(learnt)

    def number(self, value: Fraction) -> float:
        return float(value)

    def name(self, name: str) -> Any:
        return self.names[name]

    def power(self, base: Any, exponent: Fraction) -> Any:
        return base ** float(exponent)

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        if function == "learnt":
            return next(self.learnt)
        apply: Any = next(self.norms) if function == "norm" else self.branch
        return apply(*arguments)
