"""What premises are tested by: what every sublayer does in one pass, one number a seed.

A :class:`Trace` is taken by hooks on one forward and backward pass; ``QUANTITIES`` are what
assumptions ask of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from deepnet_theory.definitions.discovery import choose
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.model_update import Sizes
from deepnet_theory.laboratory.stepping import arriving, backward, only
from deepnet_theory.laboratory.trial import Trial
from deepnet_theory.runtime.branches import Attention
from deepnet_theory.runtime.model import Residual

EPSILON = 1e-8  # what Adam's libraries add to the root of the second moment by default

NOTHING = torch.empty(0)  # where a sublayer has no such quantity


@dataclass
class SublayerTrace:
    r"""One residual sublayer; every tensor has shape (seeds,), sizes are roots of token means.

    ``branch_weight`` is :math:`\|G\|/\|\alpha x\|`, ``upstream_gradient`` the size of
    :math:`\partial L/\partial x_{l+1}` for the loss of one token, ``attention_average``
    ‖softmax·x‖/‖x‖, the tokens averaged by each head's weights.
    """

    uses: int
    token_correlation: Tensor
    branch_weight: Tensor = NOTHING
    upstream_gradient: Tensor = NOTHING
    attention_average: Tensor = NOTHING

    @property
    def square(self) -> Tensor:
        """n·r²: what it adds to the distance from the identity, for n uses of it add alike."""
        return self.uses * self.branch_weight.square()


@dataclass
class Trace:
    """All sublayers; entries and their share with |g| ≥ 10 ε by parameter; the loss's gradient."""

    sublayers: list[SublayerTrace] = field(default_factory=list)
    above_epsilon: list[tuple[int, Tensor]] = field(default_factory=list)
    loss_gradient: Tensor = NOTHING

    def over_sublayers(self, quantity: str) -> Tensor:
        """One quantity of all sublayers that have it: (sublayers, seeds)."""
        values = [getattr(s, quantity) for s in self.sublayers]
        return torch.stack([x for x in values if len(x)])


def size(x: Tensor) -> Tensor:
    """The root mean square over tokens of ‖x_t‖: (k, …, d) → (k,)."""
    return x.double().square().sum(-1).flatten(1).mean(1).sqrt()


def correlation(x: Tensor) -> Tensor:
    r"""The mean cosine between different tokens of a sequence: (k, batch, tokens, d) → (k,).

    With unit vectors u_t it is :math:`(\|\sum_t u_t\|^2 - n)/(n^2 - n)`.
    """
    unit = nn.functional.normalize(x.double(), dim=-1)
    n = x.shape[-2]
    total = unit.sum(-2).square().sum(-1).mean(-1)
    return (total - n) / max(n * n - n, 1)


def take_trace(trial: Trial) -> Trace:
    """Run one forward and one backward pass of ``trial`` and record what the sublayers do."""
    trace = Trace()
    parameters = [p for p, _ in trial.parameters()]

    def collect(_: nn.Parameter, g: Tensor) -> None:
        above = (g.abs() >= 10 * EPSILON).flatten(1).double().mean(1)
        trace.above_epsilon.append((g[0].numel(), above))

    def arrive(gradient: Tensor) -> None:
        trace.loss_gradient = _per_token(gradient)

    handles: list[RemovableHandle] = []
    try:
        for residual in trial.model.residuals():
            handles.extend(_watch(residual, trial, trace.sublayers))
        with only(trial.model, parameters), arriving(parameters, collect):
            output = trial.output()
            output.register_hook(arrive)  # type: ignore[no-untyped-call]
            backward(trial.loss(output))
    finally:
        for handle in handles:
            handle.remove()
    return trace


def _per_token(gradient: Tensor) -> Tensor:
    # The loss is the mean over n tokens; n times its gradient is a token's own loss's.
    n = gradient[0, ..., 0].numel()
    return size(gradient) * n


def _watch(
    residual: Residual, trial: Trial, sublayers: list[SublayerTrace]
) -> list[RemovableHandle]:
    """Hooks on one residual sublayer; the record is made when its forward pass begins."""
    normalises_sum = residual.placement.normalises_sum
    inputs: list[Tensor] = []

    def begin(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        inputs[:] = [x := args[0].detach()]
        assert residual.site.part is not None
        sublayers.append(SublayerTrace(trial.uses[residual.site.part], correlation(x)))

    def at_branch(branch: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        if normalises_sum:
            weight = size(output.detach()) / (residual.alpha * size(inputs[0]))
            sublayers[-1].branch_weight = weight
        if isinstance(branch, Attention):
            with torch.no_grad():
                source = args[1] if branch.crosses else args[0]
                sublayers[-1].attention_average = _attention_average(branch, args[0], source)

    def end(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        now = sublayers[-1]
        if not normalises_sum:
            stream = args[3] if residual.parallel else inputs[0]
            now.branch_weight = size(output.detach() - stream.detach()) / size(inputs[0])
        inputs.clear()

        def arrive(gradient: Tensor) -> None:
            now.upstream_gradient = _per_token(gradient)

        output.register_hook(arrive)  # type: ignore[no-untyped-call]

    return [
        residual.register_forward_pre_hook(begin),
        residual.branch.register_forward_hook(at_branch),
        residual.register_forward_hook(end),
    ]


def _attention_average(branch: Attention, x: Tensor, source: Tensor) -> Tensor:
    """‖softmax · x‖/‖x‖, the average of the tokens by each head's weights: (k,)."""
    q, k = branch.queries(x), branch.keys(source)
    if branch.grouped:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = q @ k.mT * branch.scale  # (k·batch, heads, tokens, keys)
    if branch.causal:
        seen = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    tokens = source.reshape(-1, 1, *source.shape[-2:])  # (k·batch, 1, keys, d)
    averaged = scores.softmax(-1) @ tokens
    return size(averaged.reshape(x.shape[0], -1, x.shape[-1])) / size(source)


# ---- what assumptions ask for ----


def _root_mean_square(quantity: str) -> Callable[[Trace], Tensor]:
    return lambda trace: trace.over_sublayers(quantity).square().mean(0).sqrt()


def _above_epsilon(trace: Trace) -> Tensor:
    """The share of all stepped entries with |g| ≥ 10 ε, which an optimizer's ε does not reach."""
    traced = trace.above_epsilon
    return torch.stack([n * share for n, share in traced]).sum(0) / sum(n for n, _ in traced)


# By the name that an assumption of ``definitions/assumption.py`` asks for.
QUANTITIES: dict[str, Callable[[Trace], Tensor]] = {
    "attention_average": _root_mean_square("attention_average"),
    "branch_weight": _root_mean_square("branch_weight"),
    "gradient_above_epsilon": _above_epsilon,
    # ‖∂L/∂F‖ for a loss that is one token's
    "loss_gradient": lambda trace: trace.loss_gradient,
    # S·r², the sum over sublayers of (‖G‖/‖αx‖)², n times where n of them are one
    "self_consistency": lambda trace: trace.over_sublayers("square").sum(0),
    "upstream_gradient": lambda trace: trace.over_sublayers("upstream_gradient").amax(0),
}


def quantity(name: str) -> Callable[[Trace], Tensor]:
    """What measures a quantity, (seeds,); raises ``InputError`` that lists the valid names."""
    return choose("measurement", name, QUANTITIES)


def measure_quantities(case: Case, names: Sequence[str]) -> Sizes:
    """Quantities of a case by name, one value a seed."""
    trace = take_trace(Trial(case))
    return {name: tuple(quantity(name)(trace).tolist()) for name in names}
