"""Both sides of the published bounds on ‖ΔF‖, on a real stack."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.settings import fitting_threads
from deepnet_theory.laboratory.stepping import only
from deepnet_theory.laboratory.trial import Trial, generator_for
from deepnet_theory.models.step import update
from deepnet_theory.runtime import Description

DIRECTIONS = ("optimizer", "random")
SIZE = 1e-6  # ‖Δθ‖ of the whole stack: small enough that a central difference is linear
ETA = 2.0**-10

Group = list[tuple[nn.Parameter, Description]]


def norm(x: Tensor) -> Tensor:
    """The Frobenius (for vectors Euclidean) norm of each seed's parameter: (k, …) → (k, 1, …)."""
    size: Tensor = torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim)), keepdim=True)
    return size


@dataclass(frozen=True)
class Bound:
    """‖ΔF‖ of the mean token and of the worst one, and what bounds it: a value a seed."""

    mean: tuple[float, ...]
    worst: tuple[float, ...]
    bound: tuple[float, ...]

    @property
    def tightness(self) -> tuple[float, ...]:
        """The worst token's change over its bound: above 1 the bound does not hold."""
        return tuple(w / b for w, b in zip(self.worst, self.bound, strict=True))


def measure_bound(
    case: Case,
    direction: str = "optimizer",
) -> Bound:
    r"""Both sides of the bound on the change of a Post-LN stack's output.

    .. math:: \|\Delta F\| \le A \sum_{i \in \text{encoder}}
        \frac{\sqrt{v_i^2+w_i^2}}{\alpha_i}\|\Delta\theta_i\| + \sum_{i \in \text{decoder}}
        \frac{\sqrt{v_i^2+w_i^2}}{\alpha_i}\|\Delta\theta_i\|, \qquad
        A = M\,\frac{v_d w_d}{\alpha_d}

    with v = w = β of each sublayer, over the scaled matrices. A stack of one part has the one
    sum. Δθ has norm 10⁻⁶ over the whole stack, along the ``optimizer``'s own update or along
    ``random`` Gaussian directions with the same norm in each matrix; ΔF is a central difference
    in float64. Raises :class:`InputError` for another direction or placement.

    Source: DeepNet, arXiv 2203.00555, Theorems 4.2 and 4.3.
    """
    if direction not in DIRECTIONS:
        raise InputError(f"unknown direction {direction!r}; valid are: {', '.join(DIRECTIONS)}")
    selection, settings = case.selection, case.settings
    if selection.placement != "post-ln":
        raise InputError(
            f"the bound is published for the placement 'post-ln', not {selection.placement!r}"
        )
    if settings.dtype != "float64":
        raise InputError(f"dtype {settings.dtype!r} rounds too coarsely; valid is: float64")
    with fitting_threads(settings):
        trial = Trial(case)
        group = trial.parameters(roles=[Role.SCALED])
        steps = _steps(trial, group, direction)
        with torch.no_grad():
            changed = _central_difference(trial, group, steps).norm(dim=-1).flatten(1)
    bound = _right_side(trial.model.constants, group, steps)
    return Bound(
        tuple(changed.mean(1).tolist()), tuple(changed.amax(1).tolist()), tuple(bound.tolist())
    )


def _steps(trial: Trial, group: Group, direction: str) -> list[Tensor]:
    """Δθ of every parameter, of norm ``SIZE`` over the whole stack of each seed."""
    parameters = [p for p, _ in group]
    with only(trial.model, parameters):
        found = torch.autograd.grad(trial.loss(trial.output()).sum(), parameters)
    expression = trial.selection.the_optimizer.expression
    source = generator_for(trial.settings.seed, "directions", trial.settings.torch_device)
    steps = []
    with torch.no_grad():
        for p, gradient in zip(parameters, found, strict=True):
            step = update(expression, ETA, gradient, p)
            if direction == "random":
                drawn = torch.empty_like(p).normal_(generator=source)
                step = drawn * (norm(step) / norm(drawn))
            steps.append(step)
        whole = torch.stack([norm(s).flatten() for s in steps]).norm(dim=0)  # (k,)
        return [s * (SIZE / whole).view(-1, 1, 1) for s in steps]


def _central_difference(trial: Trial, group: Group, steps: list[Tensor]) -> Tensor:
    """(F(θ + Δθ) − F(θ − Δθ))/2, (k, batch, tokens, d); θ is left as it was."""
    kept = [p.clone() for p, _ in group]
    outputs = []
    for sign in (1, -1):
        for (p, _), old, step in zip(group, kept, steps, strict=True):
            p.copy_(old + sign * step)
        outputs.append(trial.output())
    for (p, _), old in zip(group, kept, strict=True):
        p.copy_(old)
    return (outputs[0] - outputs[1]) / 2


def _right_side(constants: Constants, group: Group, steps: list[Tensor]) -> Tensor:
    """The bound of each seed, (k,)."""
    squares: dict[tuple[str, int, int], Tensor] = {}
    for (_, d), step in zip(group, steps, strict=True):
        assert d.part is not None and d.layer is not None and d.sublayer is not None
        place = (d.part, d.layer, d.sublayer)
        squares[place] = squares.get(place, torch.zeros(())) + norm(step).flatten() ** 2
    last = constants.parts[-1]
    total = torch.zeros(())
    for part in constants.parts:
        factor = 1.0
        if part.name != last.name:  # through the cross-attentions of every decoder layer
            crossing = next(s for s in last.sublayers if s.kind == "cross")
            factor = last.layers * crossing.beta**2 / crossing.alpha
        for (name, _, position), square in squares.items():
            if name == part.name:
                s = part.sublayers[position]
                total = total + factor * math.sqrt(2) * s.beta / s.alpha * square.sqrt()
    return total
