"""What premises are tested by: what every sublayer does in one pass, one number a seed.

A :class:`Trace` is taken by hooks on one forward and backward pass; ``QUANTITIES`` are what
assumptions ask of a trace, or of single steps.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from deepnet_theory.definitions.discovery import choose
from deepnet_theory.laboratory.model_update import (
    ALL,
    Direction,
    Sizes,
    directions_of,
    size_along,
    sizes_alone,
)
from deepnet_theory.laboratory.stepping import arriving, backward, only
from deepnet_theory.laboratory.trial import Case, Trial
from deepnet_theory.runtime import described
from deepnet_theory.runtime.branches import Attention, FeedForward, GatedFeedForward, ResidualBranch
from deepnet_theory.runtime.linear import Normalisation
from deepnet_theory.runtime.model import Residual
from deepnet_theory.sizes.laws import factors

EPSILON = 1e-8  # what Adam's libraries add to the root of the second moment by default

SAMPLED_LAYERS = 4  # of each part, for what must be stepped sublayer by sublayer


class Trace:
    r"""What the sublayers of a ``trial`` do, one tensor (seeds,) for each that has a quantity.

    Sizes are roots of token means. ``branch_weight`` is :math:`\|G\|/\|\alpha x\|`,
    ``branch_response`` :math:`\|G\|/(\sqrt d\,\prod\beta)`, of each norm ``norm_jacobian``
    :math:`\sqrt d/\|Pz\|`, z in units of x, and ``norm_output``, per entry; ``upstream_gradient``
    the size of :math:`\partial L/\partial x_{l+1}` for the loss of one token, ``loss_gradient``
    that at F; ``attention_average`` ‖softmax·x‖/‖x‖, the tokens averaged by each head's weights;
    ``homogeneity`` the least 1 − ‖φ(cz) − cφ(z)‖/‖cφ(z)‖, c = 1/2 and 2; of each parameter
    ``above_epsilon`` is the share of its entries with |g| ≥ 10 ε, and ``entries`` their number;
    ``directions`` are the steps.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial, self.found = trial, defaultdict[str, list[Tensor]](list)
        self.directions = list[Direction]()

    @cached_property
    def moved(self) -> tuple[float, ...]:
        """‖ΔF‖/η of all steps."""
        return size_along(self.trial, self.directions)

    def each(self, quantity: str) -> Tensor:
        """One quantity of all that have it: (sublayers, seeds)."""
        return torch.stack(self.found[quantity])


def size(x: Tensor) -> Tensor:
    """The root mean square over tokens of ‖x_t‖: (k, …, d) → (k,)."""
    return x.double().square().sum(-1).flatten(1).mean(1).sqrt()


def take_trace(trial: Trial) -> Trace:
    """Run one forward and one backward pass of ``trial`` and record what the sublayers do."""
    trace = Trace(trial)
    own = dict(trial.parameters())

    def collect(p: nn.Parameter, g: Tensor) -> None:
        trace.directions.append((p, own[p], trial.change(p, g)))
        above = (g.abs() >= 10 * EPSILON).flatten(1).double()
        trace.found["above_epsilon"].append(above.mean(1))
        trace.found["entries"].append(above.new_tensor(above.shape[1]))

    def arrive(gradient: Tensor) -> None:
        trace.found["loss_gradient"].append(_per_token(gradient))

    with ExitStack() as hooked, only(trial.model, own), arriving(own, collect):
        for residual in trial.model.residuals():
            for handle in _watch(residual, trace):
                hooked.enter_context(handle)
        output = trial.output()
        output.register_hook(arrive)  # type: ignore[no-untyped-call]
        backward(trial.loss(output))
    return trace


def _per_token(gradient: Tensor) -> Tensor:
    # The loss is the mean over n tokens; n times its gradient is a token's own loss's.
    n = gradient[0, ..., 0].numel()
    return size(gradient) * n


def _watch(residual: Residual, trace: Trace) -> list[RemovableHandle]:
    """Hooks on one residual sublayer."""
    normalises_sum = residual.placement.normalises_sum
    inputs = list[Tensor]()

    def take(quantity: str, value: Tensor) -> None:
        trace.found[quantity].append(value)

    def begin(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        inputs[:] = [args[0].detach()]

    def at_branch(branch: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        y = size(output.detach())
        assert isinstance(branch, ResidualBranch)
        gains = {d.name: d.gain for _, d in described(branch)}
        product = math.prod(gains[name] for name in factors(branch.spec))
        take("branch_response", y / (product * math.sqrt(output.shape[-1])))
        if normalises_sum:
            take("branch_weight", y / (residual.alpha * size(inputs[0])))
        with torch.no_grad():
            if isinstance(branch, Attention):
                source = args[1] if branch.crosses else args[0]
                take("attention_average", _attention_average(branch, args[0], source))
            else:
                take("homogeneity", _homogeneity(branch, args[0]))

    def at_norm(norm: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        z = args[0].detach().double()
        assert isinstance(norm, Normalisation)
        if norm.spec.centred:
            z = z - z.mean(-1, keepdim=True)
        units = residual.placement.coefficients(residual.alpha)[0] if normalises_sum else 1.0
        width = math.sqrt(z.shape[-1])
        take("norm_jacobian", units * width * size(1 / z.norm(dim=-1, keepdim=True)))
        take("norm_output", size(output.detach()) / width)

    def end(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        if not normalises_sum:
            stream = args[2] if residual.parallel else inputs[0]
            take("branch_weight", size(output.detach() - stream.detach()) / size(inputs[0]))
        inputs.clear()
        # gradients arrive from the last sublayer to the first
        output.register_hook(  # type: ignore[no-untyped-call]
            lambda gradient: trace.found["upstream_gradient"].insert(0, _per_token(gradient))
        )

    return [
        residual.register_forward_pre_hook(begin),
        residual.branch.register_forward_hook(at_branch),
        *(norm.register_forward_hook(at_norm) for norm in residual.norms),
        residual.register_forward_hook(end),
    ]


def _attention_average(branch: Attention, x: Tensor, source: Tensor) -> Tensor:
    """‖softmax · x‖/‖x‖, the average of the tokens by each head's weights: (k,)."""
    q, k, _ = branch.heads(x, source)
    if branch.grouped:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = q @ k.mT * branch.scale  # (k·batch, heads, tokens, keys)
    if branch.causal:
        seen = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    tokens = source.reshape(-1, 1, *source.shape[-2:])  # (k·batch, 1, keys, d)
    averaged = scores.softmax(-1) @ tokens
    return size(averaged.reshape(x.shape[0], -1, x.shape[-1])) / size(source)


def _homogeneity(branch: ResidualBranch, x: Tensor) -> Tensor:
    """How much of cφ(z) the worse φ(cz) is, c = 1/2 and 2, on the branch's own z: (k,)."""
    if isinstance(branch, FeedForward):
        z, phi = branch.fc1(x), branch.activation
    else:
        assert isinstance(branch, GatedFeedForward)
        z, phi = branch.gate(x), nn.functional.silu
    y = phi(z)
    off = [size(phi(c * z) - c * y) / c for c in (0.5, 2.0)]
    return 1 - torch.stack(off).amax(0) / size(y)


# ---- what assumptions ask for ----


def _root_mean_square(quantity: str) -> Callable[[Trace], Tensor]:
    return lambda trace: trace.each(quantity).square().mean(0).sqrt()


def _above_epsilon(trace: Trace) -> Tensor:
    """The share of all stepped entries that an optimizer's ε does not reach."""
    entries = trace.each("entries")
    return (entries[:, None] * trace.each("above_epsilon")).sum(0) / entries.sum()


def _alignment(trace: Trace) -> Tensor:
    """‖Σ ΔF_l‖ / Σ ‖ΔF_l‖ of sublayers that are stepped alone, 1 where all point one way.

    Layers are sampled evenly over each part, and counted for their share.
    """
    layers = {part.name: part.layers for part in trace.trial.model.constants.parts}
    sampled = {name: sample_layers(count) for name, count in layers.items()}
    # a final norm is in no layer
    own = [x for x in trace.directions if x[1].layer in sampled.get(x[1].part or "", ())]
    total = torch.zeros(trace.trial.seeds, dtype=torch.float64)
    for part, size in sizes_alone(trace.trial, own):
        total += size.cpu() * layers[part] / len(sampled[part])
    return torch.tensor(trace.moved, dtype=torch.float64) / total


def sample_layers(count: int) -> set[int]:
    """At most ``SAMPLED_LAYERS`` of ``count`` layers, in the middles of equal stretches."""
    taken = min(count, SAMPLED_LAYERS)
    return {math.floor((i + 0.5) * count / taken) for i in range(taken)}


# By the name that an assumption of ``definitions/assumption.py`` asks for.
QUANTITIES: dict[str, Callable[[Trace], Tensor]] = {
    "activation_homogeneity": lambda trace: trace.each("homogeneity").amin(0),
    "activation_size": _root_mean_square("norm_output"),
    "aligned_updates": _alignment,
    "attention_average": _root_mean_square("attention_average"),
    "branch_input_response": _root_mean_square("branch_response"),
    "branch_weight": _root_mean_square("branch_weight"),
    "gradient_above_epsilon": _above_epsilon,
    "loss_gradient": lambda trace: trace.each("loss_gradient")[0],
    "norm_jacobian": lambda trace: trace.each("norm_jacobian").amax(0),
    "self_consistency": lambda trace: trace.each("branch_weight").square().sum(0),
    "upstream_gradient": lambda trace: trace.each("upstream_gradient").amax(0),
}


def quantity(name: str) -> Callable[[Trace], Tensor]:
    """What measures a quantity, (seeds,); raises ``InputError`` that lists the valid names."""
    return choose("measurement", name, QUANTITIES)


def measure_draws(
    case: Case, draws: Sequence[int], shares: Iterable[str] = (ALL,),
    quantities: Sequence[str] = (),
) -> list[Sizes]:  # fmt: skip
    """Of each draw of data and weights ‖ΔF‖/η by shares of the step, and quantities by name.

    A share is of all steps, a part's, a matrix's or a role's.
    """
    trial = Trial(case, draws=draws)
    trace = take_trace(trial) if quantities else None
    directions = trace.directions if trace else directions_of(trial)
    found = dict[str, Sequence[float]]()
    for name in shares:
        own = [x for x in directions if name in (ALL, x[1].part, x[1].name, x[1].role.value)]
        found[name] = trace.moved if trace and name == ALL else size_along(trial, own)
    found |= {name: quantity(name)(trace).tolist() for name in quantities if trace}
    k = case.settings.seeds
    return [
        {name: tuple(values[k * i : k * (i + 1)]) for name, values in found.items()}
        for i in range(len(draws))
    ]
