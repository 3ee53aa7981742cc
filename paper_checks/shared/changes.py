"""How far a stack's output moves when its matrices change in chosen directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from paper_checks.shared.later import Array, no_grad, torch
from paper_checks.shared.stacks import Net, loss_gradients, norms

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deepnet_theory.runtime import Description
    from paper_checks.shared.laboratory import Settings, Trial

    Group = Sequence[tuple[nn.Parameter, Description]]
    Chosen = Callable[[Description], bool]


def scaled(description: Description) -> bool:
    """The matrices that β multiplies."""
    return description.role.value == "scaled"


@no_grad
def moved(trial: Trial, changes: dict[int, Tensor], parameters: Sequence[nn.Parameter]) -> Tensor:
    """ΔF to first order, (k, batch, tokens, d): the central difference of two opposite steps."""
    kept = [p.clone() for p in parameters]
    outputs = []
    for sign in (1.0, -1.0):
        for p, old in zip(parameters, kept, strict=True):
            p.copy_(old + sign * changes[id(p)])
        outputs.append(trial.output().double())
    for p, old in zip(parameters, kept, strict=True):
        p.copy_(old)
    return (outputs[0] - outputs[1]) / 2


def directions(
    trial: Trial,
    kind: str,
    step: float,
    chosen: Chosen = lambda _: True,
    seed: int = 0,
) -> tuple[dict[int, Tensor], list[tuple[nn.Parameter, Description]]]:
    """Δθ of every chosen matrix: the SGD step, or Gaussian directions of the same norms.

    ``step`` is the norm of the whole Δθ of a seed, small enough for a first order.
    """
    group = [(p, d) for p, d in trial.parameters() if chosen(d)]
    parameters = [p for p, _ in group]
    gradients = loss_gradients(trial, parameters)
    total = torch.sqrt(sum((norms(g) ** 2 for g in gradients.values()), torch.tensor(0.0)))
    source = torch.Generator().manual_seed(seed)
    found = {}
    for p in parameters:
        change = gradients[id(p)]
        if kind == "random":
            drawn = torch.randn(p.shape, generator=source, dtype=p.dtype)
            change = drawn * (norms(change) / norms(drawn)).view(-1, 1, 1)
        elif kind != "gradient":
            raise ValueError(kind)
        found[id(p)] = -step * change / total.view(-1, 1, 1)
    return found, group


def sublayer_norms(changes: dict[int, Tensor], group: Group) -> Tensor:
    """‖Δθ_i‖ of each sublayer over its scaled matrices, (sublayers, seeds)."""
    squares: dict[tuple[Any, ...], Tensor] = {}
    for p, d in group:
        key = (d.part, d.layer, d.sublayer)
        square = norms(changes[id(p)]).double() ** 2
        squares[key] = squares[key] + square if key in squares else square
    return torch.stack(list(squares.values())).sqrt()


def per_token(change: Tensor) -> Tensor:
    """The mean over tokens of ‖Δx_p‖ of each seed: (k,)."""
    found: Tensor = change.norm(dim=-1).flatten(1).mean(1)
    return found


def bound_ratio(
    net: Net, layers: int, s: Settings, kind: str, chosen: Chosen = scaled
) -> tuple[Array, Array]:
    r"""The change of the output over Σ √(v²+w²)/α ‖Δθ_i‖: the mean token's, and the worst's.

    v = w = β of each sublayer; float64, so that a step of 10⁻⁵ is far from rounding.
    """
    trial = net.trial(layers, s)
    changes, group = directions(trial, kind, 1e-5, chosen, s.seed)
    delta = moved(trial, changes, [p for p, _ in group])
    alpha, beta = net.rule.entry(net.stack, "*").at(**net.depth(layers))
    bound = math.sqrt(2) * beta / alpha * sublayer_norms(changes, group).sum(0)
    sizes = delta.norm(dim=-1).flatten(1)
    return (sizes.mean(1) / bound).numpy(), (sizes.amax(1) / bound).numpy()
