"""The interval of a predicted ‖ΔF‖/η: what other seeds, with data of their own, predict."""

from itertools import combinations

import numpy as np

import deepnet_theory as dt

SEEDS = 10
SMALL = {"width": 16, "heads": 2, "tokens": 8, "seeds": 4, "draws": 2, "device": "cpu"}


def calibrated(found):
    """Whether intervals of 95 % are neither too narrow nor too wide for the scatter."""
    overlap = [a.low <= b.high and b.low <= a.high for a, b in combinations(found, 2)]
    assert np.mean(overlap) > 0.95
    middle = float(np.mean([p.mean for p in found]))
    assert sum(p.low <= middle <= p.high for p in found) >= len(found) - 2
    # t of three degrees of freedom is 3.18, the error of a mean of four is what these scatter by
    half = np.mean([(p.high - p.low) / 2 for p in found])
    assert 1.5 < half / np.std([p.mean for p in found], ddof=1) < 7


def test_the_interval_covers_what_other_data_would_give():
    derivation = dt.derive("adam")
    predictions = [dt.predict_update(derivation, [8], seed=seed, **SMALL) for seed in range(SEEDS)]
    calibrated([p.points[0] for p in predictions])
    for shares in zip(*(p.shares for p in predictions), strict=True):
        if shares[0].name.split()[-1] not in ("query", "key"):  # 300 times smaller, and skewed
            calibrated(list(shares))
