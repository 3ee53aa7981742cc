"""How much a stack's output changes when its parameters change in chosen directions or steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from paper_checks.shared.engine import derive_selection
from paper_checks.shared.fitting import columns
from paper_checks.shared.later import Array, np, torch
from paper_checks.shared.stacks import Gradient, Net, loss_gradients, norms, own_updates

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deepnet_theory.runtime import Description
    from paper_checks.shared.bench import Lab
    from paper_checks.shared.numeric import Settings, Trial

    Group = Sequence[tuple[nn.Parameter, Description]]
    Chosen = Callable[[Description], bool]


def scaled(description: Description) -> bool:
    """The matrices that β multiplies."""
    return description.role.value == "scaled"


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


def sgd_move(trial: Trial, eta: float) -> Tensor:
    """ΔF/η of an SGD step of all that is stepped, to first order."""
    parameters = [p for p, _ in trial.parameters()]
    steps = {n: -eta * g for n, g in loss_gradients(trial, parameters).items()}
    return moved(trial, steps, parameters) / eta


def directions(
    trial: Trial, kind: str, step: float, chosen: Chosen = lambda _: True, seed: int = 0
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


def bound_ratios(
    net: Net, points: Iterable[tuple[int, Settings]], kind: str, chosen: Chosen = scaled
) -> tuple[Array, Array]:
    r"""The change of the output over Σ √(v²+w²)/α ‖Δθ_i‖: the mean token's, and the worst's.

    (seeds, points) each, a point a number of layers and its settings. v = w = β of each sublayer;
    float64, so that a step of 10⁻⁵ is far from rounding.
    """
    found = []
    for layers, s in points:
        trial = net.trial(layers, s)
        changes, group = directions(trial, kind, 1e-5, chosen, s.seed)
        delta = moved(trial, changes, [p for p, _ in group])
        alpha, beta = net.rule.entry(net.stack, "*").at(**net.depth(layers))
        bound = math.sqrt(2) * beta / alpha * sublayer_norms(changes, group).sum(0)
        sizes = delta.norm(dim=-1).flatten(1)
        found.append((sizes.mean(1) / bound, sizes.amax(1) / bound))
    means, worst = zip(*found, strict=True)
    return columns(means), columns(worst)


# ---- a step of all parameters with the derived learning-rate multiplier of each kind ------------


def everything(lab: Lab, **other: Any) -> Settings:
    """All parameters stepped, in float64: a step of η/(2N) of a gain of 1 is lost in rounding."""
    return lab.settings(step="all", dtype="float64", **other)


def scaled_updates(net: Net, at: Sequence[int], s: Settings, eta: float = 1e-5) -> Array:
    """One step with a role's learning rate η times its multiplier: (seeds, depths).

    Raises ``ValueError`` for single precision, which loses so small a step of a gain of 1.
    """
    if s.dtype != "float64":
        raise ValueError(f"a multiplied step of a gain is lost in {s.dtype}; valid is: float64")
    derivation, expression = derive_selection(net.selection), net.selection.the_optimizer.expression

    def updates(depth: int) -> Array:
        rates: dict[str, float] = {}  # of each role, the least of its kinds of parameter
        for kind in derivation.parameters:
            rate = kind.at(**net.depth(depth)).rate
            role = kind.place.kind.value
            rates[role] = min(rate, rates.get(role, rate))

        def step(one: Gradient) -> None:
            rate = eta * rates.get(one.description.role.value, 1.0)
            one.theta.add_(one.update(expression, rate))

        return own_updates(net, (depth,), s, eta, step)

    return np.concatenate([updates(depth) for depth in at], axis=1)
