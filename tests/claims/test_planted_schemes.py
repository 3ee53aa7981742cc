"""Negative controls of the sentences of the year: the opposite is planted, the verdict turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deepnet_theory.claims.folder import importable, location
from deepnet_theory.spec.scheme import SchemePart, scheme
from deepnet_theory.spec.verdict import Verdict

importable(location())  # the claims' own ``paper_checks``
from paper_checks.shared.stacks import Net  # noqa: E402

REFUTED, SUPPORTED = Verdict.REFUTED, Verdict.SUPPORTED


def around(*means: float) -> np.ndarray:
    """Eight seeds that differ by little from each mean: (seeds, means), (seeds,) of one."""
    noise = 1e-3 * np.random.default_rng(0).standard_normal((8, len(means)))
    return (np.array(means) + noise).squeeze(1) if len(means) == 1 else np.array(means) + noise


def powers(exponent: float, *at: float) -> np.ndarray:
    return np.exp(around(*(exponent * np.log(at))))


def apart(lab):
    return {"text": around(1.0), "gaussian:0": around(0.7)}


def without_factor(name):
    """Keel with a stream that nothing multiplies."""
    return replace(scheme(name), parts=(SchemePart("encoder"),))


@pytest.mark.parametrize(
    ("claim", "planted", "expected"),
    [
        (
            "schemes-keel-vanishing",
            {"fall": lambda trial: around(1.0)},
            {"halves the gradient": SUPPORTED, "a fifth": REFUTED, "does not fall": REFUTED},
        ),
        ("schemes-keel-vanishing", {"scheme": without_factor}, {"keeps": REFUTED}),
        ("schemes-keel-vanishing", {"above": lambda *_: around(-0.4)}, {"vanish P": SUPPORTED}),
        ("schemes-keel-vanishing", {"above": lambda *_: around(0.03)}, {"what trains": REFUTED}),
        (
            "schemes-sp-appears",
            {"best_rates": lambda lab: powers(0.0, 4, 16)},
            {"is the same": SUPPORTED, "falls": REFUTED},
        ),
        (
            "schemes-sp-appears",
            {
                "steps": lambda lab: {
                    n: powers(0.0, 4, 16, 64, 256) for n in ("normalised", "plain")
                }
            },
            {"alike": SUPPORTED, "grows": REFUTED},
        ),
        (
            "schemes-sp-appears",
            {
                "steps": lambda lab: {
                    "normalised": powers(0.0, 4, 16, 64, 256),
                    "plain": powers(0.5, 4, 16, 64, 256),
                }
            },
            {"do not change": REFUTED},
        ),
        ("schemes-data-exponent", {"balanced": apart}, {"holds Adam": SUPPORTED}),
        (
            "schemes-data-exponent",
            {
                "Net": lambda _, *other: Net("N**(1/2)", *other),
                "DATA": ("text",),
                "DEPTHS": (4, 8, 16),
            },
            {"is constant": REFUTED},
        ),
        (
            "schemes-data-exponent",
            {"trained": lambda lab: (around(2.6, 2.5, 2.4), around(2.1, 2.2, 2.3))},
            {"the better of": SUPPORTED, "a of 1": REFUTED},
        ),
        (
            "schemes-decay-carries",
            {"relative": lambda lab, *_: powers(0.0, 32, 64, 128, 256)},
            {"in proportion": SUPPORTED, "alone": REFUTED, "matter": SUPPORTED, "grows": REFUTED},
        ),
        (
            "schemes-decay-carries",
            {"relative": lambda lab, *_: powers(0.5, 32, 64, 128, 256)},
            {"in proportion": REFUTED},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_a_planted_opposite_turns_the_verdict(plant, claim, planted, expected):
    judge = plant(claim, **planted)
    assert {words: judge(words) for words in expected} == expected
