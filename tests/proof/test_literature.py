"""The power of B of the rate of updates of the literature, by a Monte Carlo of its own."""

import numpy as np
import pytest

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.batch import batch_rule

UPDATES = (
    # gradient descent, sign descent (signSGD, Adam, Lion), and their normalised forms
    "g", "sign(g)", "g/norm(g)", "g/rms(g)", "g/norm(g)**2", "g/sqrt(norm(g))", "g*norm(g)",
    "g*sqrt(norm(g))", "norm(g)*sign(g)", "rms(g)*sign(g)", "sign(g)*norm(g)**2",
    # steepest descent in p-norms, and powers of entries
    "sign(g)*abs(g)**(1/2)", "sign(g)*abs(g)**(1/3)", "sign(g)*abs(g)**(1/4)",
    "sign(g)*abs(g)**(2/3)", "sign(g)*abs(g)**(3/2)", "g*abs(g)", "g**3",
    "sign(g)*abs(g)**(-1/4)", "sign(g)*abs(g)**(1/3)*norm(g)**(2/3)", "g/sqrt(abs(g))",
    "sign(g)*abs(g)**(1/2)/norm(sqrt(abs(g)))",
    # trust ratios and relative updates: LARS, LAMB, Fromage, Adafactor, Madam
    "norm(theta)*g/norm(g)", "norm(theta)*sign(g)/norm(sign(g))", "rms(theta)*sign(g)",
    "max(rms(theta), 1/1000)*sign(g)", "abs(theta)*sign(g)", "abs(theta)*g/rms(g)",
    "sqrt(norm(theta))*g", "norm(theta)*g*abs(g)/norm(g*abs(g))",
    # spectral descent: Muon's forms, and with the size of the gradient
    "polar(g)", "norm(g)*polar(g)", "sqrt(max(rows(theta), columns(theta)))*polar(g)",
    "sqrt(rows(theta)/columns(theta))*polar(g)", "norm(theta)*polar(g)/norm(polar(g))",
    "norm(g)**2*polar(g)", "polar(g) + sign(g)",
    # clipped, softened and mixed
    "clip(g, -rms(g), rms(g))", "clip(g/rms(g), -1, 1)", "g/(abs(g) + rms(g))",
    "g/sqrt(g**2 + rms(g)**2)", "sign(g) + g/rms(g)", "max(abs(g), rms(g))*sign(g)",
)  # fmt: skip
BATCHES, PAIRS, SHAPE = (1, 64), 4000, (3, 5)
FAINT = 0.1 / BATCHES[-1] ** 0.5  # a mean gradient that noise dominates at every batch


def frobenius(x):
    return np.sqrt((x**2).sum((-2, -1), keepdims=True))


def orthogonal(x):
    u, _, v = np.linalg.svd(x, full_matrices=False)
    return u @ v


NUMBERS = {
    "sign": np.sign, "abs": np.abs, "sqrt": np.sqrt, "norm": frobenius, "polar": orthogonal,
    "rms": lambda x: frobenius(x) / np.prod(SHAPE) ** 0.5, "clip": np.clip, "max": np.maximum,
    "rows": lambda _: SHAPE[0], "columns": lambda _: SHAPE[1],
}  # fmt: skip


@pytest.mark.parametrize("update", UPDATES)
def test_the_rate_that_gains_most_on_a_noisy_quadratic_has_the_derived_power(update):
    """The loss's fall over twice its curvature along the update, from draws in opposite pairs."""
    draw = np.random.default_rng(0)
    mean, theta, curvature = draw.choice((-1.0, 1.0), (3, *SHAPE)) * draw.uniform(0.5, 1, SHAPE)
    xi, rates = draw.standard_normal((PAIRS, *SHAPE)), []
    for batch in BATCHES:
        noise = np.concatenate([xi, -xi]) / batch**0.5
        u = eval(update, {**NUMBERS, "g": FAINT * mean + noise, "theta": theta})
        rates.append((u * mean).mean() / (abs(curvature) * u**2).mean())
    power = np.log(rates[1] / rates[0]) / np.log(BATCHES[1] / BATCHES[0])
    derived = batch_rule(Selection(update=f"-eta*({update})")).row("fc1").rate.exponent("B")
    assert power == pytest.approx(float(derived), abs=0.04), update
