"""A trace: what every sublayer does in one forward and backward pass, one number a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from deepnet_theory.numeric.stepping import arriving, backward, numel, only
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.runtime import described
from deepnet_theory.runtime.branches import Attention, FeedForward, GatedFeedForward
from deepnet_theory.runtime.linear import Norm
from deepnet_theory.runtime.model import Residual, first_stream
from deepnet_theory.spec.sublayer import Role

EPSILON = 1e-8  # what Adam's libraries add to the root of the second moment by default


NOTHING = torch.empty(0)  # where a sublayer has no such quantity


@dataclass
class SublayerTrace:
    r"""One residual sublayer; every tensor has shape (seeds,), sizes are roots of token means.

    ``branch_weight`` is :math:`\|G\|/\|\alpha x\|`; ``branch_response``
    :math:`\|G\|/(\sqrt d\,\prod\beta)`; ``norm_jacobian`` the greatest :math:`\sqrt d/\|Pz\|`, z in
    units of x; ``upstream_gradient`` the size of :math:`\partial L/\partial x_{l+1}` for the loss
    of one token.
    """

    part: str
    layer: int
    kind: str
    uses: int
    input_size: Tensor
    token_correlation: Tensor
    branch_weight: Tensor = NOTHING
    branch_response: Tensor = NOTHING
    norm_jacobian: Tensor = NOTHING
    norm_output: Tensor = NOTHING
    upstream_gradient: Tensor = NOTHING
    attention_average: Tensor | None = None
    inhomogeneity: Tensor | None = None

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
        found = [getattr(s, quantity) for s in self.sublayers]
        return torch.stack([x for x in found if x is not None and len(x)])


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
        trace.above_epsilon.append((numel(g), above))

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
    width = trial.settings.width
    normalises_sum = residual.placement.normalises_sum
    inputs: list[Tensor] = []

    def begin(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        inputs[:] = [x := args[0].detach()]
        site = residual.site
        assert site.layer is not None and site.part is not None and site.kind is not None
        uses, sizes = trial.uses[site.part], (size(x) / math.sqrt(width), correlation(x))
        sublayers.append(SublayerTrace(site.part, site.layer, site.kind, uses, *sizes))

    def at_branch(branch: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        now, y = sublayers[-1], output.detach()
        gains = math.prod(d.gain for _, d in described(branch) if d.role is Role.SCALED)
        now.branch_response = size(y) / (math.sqrt(width) * gains)
        if normalises_sum:
            now.branch_weight = size(y) / (residual.alpha * size(inputs[0]))
        with torch.no_grad():
            if isinstance(branch, Attention):
                source = args[0] if not branch.crosses else args[1]
                now.attention_average = _attention_average(branch, args[0], source)
            else:
                now.inhomogeneity = _inhomogeneity(branch, args[0])

    def at_norm(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        now, z = sublayers[-1], args[0].detach()
        assert isinstance(module, Norm)
        if module.spec.centred:
            z = z - z.mean(-1, keepdim=True)
        units = residual.placement.coefficients(residual.alpha)[0] if normalises_sum else 1.0
        inverse = z.double().square().sum(-1).reciprocal().flatten(1).mean(1).sqrt()
        jacobian, before = units * math.sqrt(width) * inverse, now.norm_jacobian
        now.norm_jacobian = torch.maximum(before, jacobian) if len(before) else jacobian
        now.norm_output = size(output.detach()) / math.sqrt(width)

    def end(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        now, output = sublayers[-1], first_stream(output)
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
        *(module.register_forward_hook(at_norm) for module in residual.norms),
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


SCALES = (0.5, 2.0)


def _inhomogeneity(branch: nn.Module, x: Tensor) -> Tensor:
    r"""The worst ‖φ(λz) − λφ(z)‖/‖λφ(z)‖ on the branch's own z, for λ = 1/2 and 2: (k,)."""
    if isinstance(branch, FeedForward):
        z, phi = branch.fc1(x).double(), branch.activation
    else:
        assert isinstance(branch, GatedFeedForward)
        z, phi = branch.gate(x).double(), nn.functional.silu
    base = phi(z)
    deviations = [size(phi(c * z) - c * base) / (c * size(base)) for c in SCALES]
    return torch.stack(deviations).amax(0)
