"""What premises are tested by: quantities of a stack at one depth, one value a seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.model_update import Chosen, ModelUpdate, measure_model_update
from deepnet_theory.numeric.trace import Trace, take_trace
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.spec.discovery import choose

SAMPLED_LAYERS = 4  # of each part, for what must be done sublayer by sublayer


@dataclass
class Probe:
    """A case and the model update measured of it; measurements ask it for more."""

    case: Case
    model_update: ModelUpdate

    def trial(self) -> Trial:
        return Trial(self.case)

    @cached_property
    def trace(self) -> Trace:
        return take_trace(self.trial())

    @property
    def values(self) -> Tensor:
        """‖ΔF‖/η of every seed, of the weights that :meth:`trial` draws: (seeds,)."""
        return torch.tensor(self.model_update.first_draw, dtype=torch.float64)

    def share(self, chosen: Chosen, draws: int = 1) -> Tensor:
        eta = self.model_update.eta
        found = measure_model_update(self.case, eta=eta, draws=draws, chosen=chosen)
        return torch.tensor(found.values, dtype=torch.float64)

    @cached_property
    def sum_of_sublayer_updates(self) -> Tensor:
        """The sum over sublayers of ‖ΔF_l‖/η, each alone by one stack's gradients: (seeds,).

        Layers are sampled evenly over each part, and counted for their share of it.
        """
        trial = self.trial()
        # a layer that is used several times is stepped once
        layers = {part.name: part.distinct for part in trial.model.constants.parts}
        sampled = {name: sample_layers(count) for name, count in layers.items()}
        # a norm's parameters belong to its residual sublayer, a final norm's to none
        chosen = [
            (p, (d.part, d.layer, d.sublayer))
            for p, d in trial.parameters()
            if d.part in sampled and d.layer in sampled[d.part] and d.sublayer is not None
        ]
        eta = self.model_update.eta * math.sqrt(sum(layers.values()))
        first = trial.first_step([p for p, _ in chosen], eta)
        total = torch.zeros(trial.seeds, dtype=torch.float64)
        for place in dict.fromkeys(place for _, place in chosen):
            alone = [
                (p, change)
                for (p, at), change in zip(chosen, first.changes, strict=True)
                if at == place
            ]
            change = trial.moved(first.before, *zip(*alone, strict=True))
            size = change.norm(dim=-1).flatten(1).mean(1).cpu() / eta
            total += size * layers[place[0]] / len(sampled[place[0]])
        return total


def sample_layers(count: int, most: int = SAMPLED_LAYERS) -> set[int]:
    """At most ``most`` of ``count`` layers, in the middles of equal stretches."""
    taken = min(count, most)
    return {math.floor((i + 0.5) * count / taken) for i in range(taken)}


def _root_mean_square(quantity: str) -> Callable[[Probe], Tensor]:
    return lambda probe: probe.trace.over_sublayers(quantity).square().mean(0).sqrt()


def _greatest(quantity: str) -> Callable[[Probe], Tensor]:
    return lambda probe: probe.trace.over_sublayers(quantity).amax(0)


def _inhomogeneity(probe: Probe) -> Tensor:
    """The worst ‖φ(λz) − λφ(z)‖/‖λφ(z)‖ over sublayers, λ = 1/2 and 2."""
    if all(s.inhomogeneity is None for s in probe.trace.sublayers):
        return torch.zeros_like(probe.values)  # no activation at all
    return probe.trace.over_sublayers("inhomogeneity").amax(0)


def _above_epsilon(probe: Probe) -> Tensor:
    """The share of all stepped entries with |g| ≥ 10 ε, which an optimizer's ε does not reach."""
    traced = probe.trace.above_epsilon
    return torch.stack([n * share for n, share in traced]).sum(0) / sum(n for n, _ in traced)


# By the name that an assumption of ``spec/assumptions`` asks for.
QUANTITIES: dict[str, Callable[[Probe], Tensor]] = {
    "activation_homogeneity": _inhomogeneity,
    # the norms' outputs, per entry
    "activation_size": _root_mean_square("norm_output"),
    # ‖Σ ΔF_l‖ / Σ ‖ΔF_l‖ of single-sublayer steps, 1 where all point one way
    "aligned_updates": lambda probe: probe.values / probe.sum_of_sublayer_updates,
    # ‖softmax·x‖/‖x‖
    "attention_average": _root_mean_square("attention_average"),
    # ‖G‖/(√d Πβ)
    "branch_input_response": _root_mean_square("branch_response"),
    # ‖G‖/‖αx‖
    "branch_weight": _root_mean_square("branch_weight"),
    "gradient_above_epsilon": _above_epsilon,
    # the second-order part of ΔF, as a share; seen on one seed, so it stands for all
    "linear_step": lambda p: torch.full_like(p.values, p.model_update.second_order),
    # ‖∂L/∂F‖ for a loss that is one token's
    "loss_gradient": lambda probe: probe.trace.loss_gradient,
    # √d/‖Pz‖, z in units of x
    "norm_jacobian": _greatest("norm_jacobian"),
    # ‖ΔF‖ of queries and keys alone, over ‖ΔF‖
    "query_key_share": lambda p: p.share(lambda d: d.name in ("query", "key")) / p.values,
    # S·r², the sum over sublayers of (‖G‖/‖αx‖)², n times where n of them are one
    "self_consistency": lambda probe: probe.trace.over_sublayers("square").sum(0),
    # the mean cosine of two tokens at the last sublayer's input
    "token_correlation": lambda probe: probe.trace.sublayers[-1].token_correlation,
    # ‖∂L/∂x_{l+1}‖ for a loss that is one token's
    "upstream_gradient": _greatest("upstream_gradient"),
}


def quantity(name: str) -> Callable[[Probe], Tensor]:
    """What measures a quantity, (seeds,); raises ``InputError`` that lists the valid names."""
    return choose("measurement", name, QUANTITIES)
