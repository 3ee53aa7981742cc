"""Exponents of a gradient in the knobs λ₁, λ₂ and α of one kind of branch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from paper_checks.shared.laboratory import Interval, Settings, t_interval
from paper_checks.shared.stacks import Net, backward

Point = tuple[float, float, float]  # λ of the first matrix, λ of the second, α


def gradients(
    layer: str, first: str, second: str, points: Sequence[Point], depth: int, s: Settings
) -> dict[str, np.ndarray]:
    """‖∂L/∂W‖ and |∂L/∂λ| of both matrices (rms over layers): (seeds, points) each."""
    rows: dict[str, list[np.ndarray]] = {}
    for one, two, alpha in points:
        gain = {first: one, second: two}
        net = Net(alpha=repr(alpha), layer=layer)
        p = backward(net.trial(depth, s, scale=lambda d, gain=gain: gain.get(d.name, 1.0)))
        for name, lam in ((first, one), (second, two)):
            chosen = p.of(name)
            size = sum(g.norm().double() ** 2 for g in chosen).sqrt()
            probe = (sum(g.probe().double() ** 2 for g in chosen)).sqrt() / lam
            rows.setdefault(f"gradient {name}", []).append(size.numpy())
            rows.setdefault(f"probe {name}", []).append(probe.numpy())
    return {name: np.stack(columns, axis=1) for name, columns in rows.items()}


def knob_exponents(points: Sequence[Point], values: np.ndarray) -> tuple[Interval, ...]:
    """The exponents in λ₁, λ₂ and α, by least squares for each seed, with intervals."""
    design = np.column_stack([np.ones(len(points)), np.log(np.array(points))])
    fitted = np.linalg.lstsq(design, np.log(values).T, rcond=None)[0]  # (4, seeds)
    return tuple(t_interval(row) for row in fitted[1:])


def grid(lams: Sequence[float], alphas: Sequence[float]) -> list[Point]:
    """All combinations."""
    return list(itertools.product(lams, lams, alphas))
