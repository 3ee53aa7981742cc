"""‖ΔF‖/η of all parameters with the derived learning-rate multiplier of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from paper_checks.shared.engine import derive_selection
from paper_checks.shared.later import laboratory, torch
from paper_checks.shared.stacks import Net

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from paper_checks.shared.bench import Lab
    from paper_checks.shared.laboratory import Settings


def everything(lab: Lab, **other: Any) -> Settings:
    """All parameters stepped, in float64: a step of η/(2N) of a gain of 1 is lost in rounding."""
    return lab.settings(step="all", dtype="float64", **other)


def scaled_updates(net: Net, at: Sequence[int], s: Settings, eta: float = 1e-5) -> NDArray[Any]:
    """One step in which a role's learning rate is η times its multiplier: (seeds, depths).

    Raises ``ValueError`` for single precision, in which so small a step of a gain of 1 is lost.
    """
    if s.dtype != "float64":
        raise ValueError(f"a multiplied step of a gain is lost in {s.dtype}; valid is: float64")
    derivation = derive_selection(net.selection)
    columns = []
    for depth in at:
        multipliers = derivation.multipliers("encoder", N=depth)
        trial = net.trial(depth, s)
        chosen = trial.parameters()
        expression = trial.selection.the_optimizer.expression
        with laboratory.only(trial.model, [p for p, _ in chosen]):
            before = trial.output()
            found = torch.autograd.grad(trial.loss(before).sum(), [p for p, _ in chosen])
        with torch.no_grad():
            for (p, d), g in zip(chosen, found, strict=True):
                p.add_(
                    laboratory.update(expression, eta * multipliers.get(d.role.value, 1.0), g, p)
                )
            change = (trial.output() - before).double()
        columns.append(change.norm(dim=-1).flatten(1).mean(1) / eta)
    return torch.stack(columns, dim=1).numpy()
