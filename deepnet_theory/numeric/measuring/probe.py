"""A probe: everything that can be measured of a rule at one depth, computed once, on demand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from deepnet_theory.numeric.measuring.model_update import Chosen, ModelUpdate, measure_model_update
from deepnet_theory.numeric.measuring.trace import Trace, take_trace
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.trial import Trial
from deepnet_theory.numeric.stepping.gradients import gradients
from deepnet_theory.numeric.stepping.step import only
from deepnet_theory.numeric.stepping.update import update
from deepnet_theory.runtime import Description

SAMPLED_LAYERS = 4  # of each part, for what must be done sublayer by sublayer


@dataclass
class Probe:
    """A case and the model update measured of it; measurements ask it for more."""

    case: Case
    model_update: ModelUpdate

    def trial(self) -> Trial:
        """The stacks as they were drawn, before any step."""
        return Trial(self.case)

    @cached_property
    def trace(self) -> Trace:
        """One forward and backward pass, recorded sublayer by sublayer."""
        return take_trace(self.trial())

    @property
    def values(self) -> Tensor:
        """‖ΔF‖/η of every seed, of the weights that :meth:`trial` draws: (seeds,)."""
        return torch.tensor(self.model_update.first_draw, dtype=torch.float64)

    def share(self, chosen: Chosen, draws: int = 1) -> Tensor:
        """‖ΔF‖/η when only the ``chosen`` parameters are stepped: (seeds,)."""
        found = measure_model_update(
            self.case,
            eta=self.model_update.eta,
            draws=draws,
            chosen=chosen,
        )
        return torch.tensor(found.values, dtype=torch.float64)

    @cached_property
    def sum_of_sublayer_updates(self) -> Tensor:
        r"""The sum over sublayers of ‖ΔF_l‖/η, each sublayer stepped alone: (seeds,).

        All gradients are those of the one unstepped stack. Layers are sampled evenly over
        each part, every sublayer of a sampled layer counted for its share of the part.
        """
        trial = self.trial()
        sampled: dict[tuple[str, int, int], list[tuple[nn.Parameter, Description]]] = {}
        layers = {part.name: part.layers for part in trial.model.constants.parts}
        chosen = {name: sample_layers(count) for name, count in layers.items()}
        for parameter, d in trial.parameters():
            # a norm's parameters belong to its residual sublayer, a final norm's to none
            if d.part in chosen and d.layer in chosen[d.part] and d.sublayer is not None:
                sampled.setdefault((d.part, d.layer, d.sublayer), []).append((parameter, d))
        eta = self.model_update.eta * math.sqrt(sum(layers.values()))
        parameters = [p for group in sampled.values() for p, _ in group]
        with only(trial.model, parameters):
            before = trial.output()
            found = gradients(trial.loss(before), parameters)
            own = {id(p): g for p, g in zip(parameters, found, strict=True)}
        before = before.detach()
        expression = self.case.selection.the_optimizer.expression
        total = torch.zeros(trial.seeds, dtype=torch.float64)
        with torch.no_grad():
            for (part, _, _), group in sampled.items():
                kept = [p.clone() for p, _ in group]
                for p, _ in group:
                    p.add_(update(expression, eta * trial.rate(p), own[id(p)], p))
                change = (trial.output() - before).double()
                size = change.norm(dim=-1).flatten(1).mean(1).cpu() / eta
                total += size * layers[part] / len(chosen[part])
                for (p, _), old in zip(group, kept, strict=True):
                    p.copy_(old)
        return total


def sample_layers(count: int, most: int = SAMPLED_LAYERS) -> set[int]:
    """At most ``most`` of ``count`` layers, in the middles of equal stretches."""
    taken = min(count, most)
    return {math.floor((i + 0.5) * count / taken) for i in range(taken)}
