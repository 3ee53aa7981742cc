"""‖ΔF‖/η of all parameters with the derived learning-rate multiplier of each kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stepping.step import only
from deepnet_theory.numeric.stepping.update import update
from deepnet_theory.symbolic.derive import derive
from paper_checks._stack import Net


def scaled_updates(net: Net, at: Sequence[int], s: Settings, eta: float = 1e-5) -> np.ndarray:
    """One step in which a role's learning rate is η times its multiplier: (seeds, depths).

    Raises ``ValueError`` for single precision, in which so small a step of a gain of 1 is lost.
    """
    if s.dtype != "float64":
        raise ValueError(f"a multiplied step of a gain is lost in {s.dtype}; valid is: float64")
    derivation = derive(net.selection)
    columns = []
    for depth in at:
        multipliers = derivation.multipliers("encoder", N=depth)
        trial = net.trial(depth, s)
        chosen = trial.parameters()
        expression = trial.selection.the_optimizer.expression
        with only(trial.model, [p for p, _ in chosen]):
            before = trial.output()
            found = torch.autograd.grad(trial.loss(before).sum(), [p for p, _ in chosen])
        with torch.no_grad():
            for (p, d), g in zip(chosen, found, strict=True):
                p.add_(update(expression, eta * multipliers.get(d.role.value, 1.0), g, p))
            change = (trial.output() - before).double()
        columns.append(change.norm(dim=-1).flatten(1).mean(1) / eta)
    return torch.stack(columns, dim=1).numpy()
