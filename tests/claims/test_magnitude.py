"""The magnitude of a matrix and the probe, in steps and in samples."""

from __future__ import annotations

import numpy as np
import pytest

from deepnet_theory.symbolic.algebra.monomial import beta
from paper_checks.shared.steps.magnitude import magnitude_steps
from paper_checks.shared.steps.magnitude.distance import d, m, t1, t2

STEPS = {s.name: s for s in magnitude_steps()}


def test_closed_form_against_a_search() -> None:
    generator = np.random.default_rng(0)
    for shape in ((3, 5), (5, 3), (4, 4)):
        w = generator.normal(size=shape)
        gram = w @ w.T
        grid = np.linspace(0.2, 8, 40_001)[1:]
        distances = (gram**2).sum() / grid**4 - 2 * np.trace(gram) / grid**2 + shape[0]
        closed = float(STEPS["magnitude"].rhs.subs({t1: np.trace(gram), t2: np.trace(gram @ gram)}))
        assert abs(grid[distances.argmin()] - closed) < 1e-3


def test_a_xavier_matrix_is_half_way_to_orthogonal() -> None:
    """κ and the least distance of one wide square Xavier matrix, as derived: √2 and ½."""
    generator = np.random.default_rng(1)
    width = 400
    w = generator.normal(0, np.sqrt(1 / width), (width, width))
    gram = w @ w.T
    kappa2 = (gram**2).sum() / np.trace(gram)
    exact = float(STEPS["xavier-ratio"].rhs.subs({beta: 1, d: width, m: width}))
    assert kappa2 == pytest.approx(exact, rel=0.02) and exact == pytest.approx(2, rel=0.01)
    residual = ((gram / kappa2 - np.eye(width)) ** 2).sum() / width
    assert residual == pytest.approx(float(STEPS["xavier-residual-square"].rhs), abs=0.02)
    x = generator.normal(size=width)
    assert np.linalg.norm(x @ w) == pytest.approx(np.linalg.norm(x), rel=0.15)


def test_probe_of_independent_directions() -> None:
    generator = np.random.default_rng(2)
    rows, columns, draws = 6, 9, 40_000
    gradient = generator.normal(size=(rows, columns))
    u = generator.normal(0, 0.3, (draws, rows, columns))
    inner = (u * gradient).sum((1, 2))
    share = (inner**2).mean() / ((gradient**2).sum() * (u**2).sum((1, 2)).mean())
    exact = float(STEPS["probe-share"].rhs.subs({d: rows, m: columns}))
    assert share == pytest.approx(exact, rel=0.05)
