"""A gradient of B samples, G + ξ/√B: the rate that gains most in one update, and whole runs of SGD.

With U the update of a quadratic loss of curvature H, one update at rate η gains
η E[U]·G − ½η² E[UᵀHU]: most at η* = E[U]·G / E[UᵀHU], where it gains (E[U]·G)²/(2 E[UᵀHU]).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paper_checks.shared.later import Array, np, torch

SU = "Su Jianlin, kexue.fm/archives/{} ({})"


def erf(x: Array) -> Array:
    """The error function of every entry."""
    return np.asarray(torch.erf(torch.as_tensor(np.asarray(x, dtype=float))))


def mean_sign(snr: Array) -> Array:
    """E sign(g + σz), z standard normal, of g/σ."""
    return erf(np.asarray(snr) / np.sqrt(2))


def normal(seed: int, *shape: int) -> Array:
    """Standard normal draws of NumPy's generator of this seed."""
    return np.random.default_rng(seed).standard_normal(shape)


def averages(
    gradients: Iterable[Array], beta1: float, beta2: float
) -> Iterator[tuple[Array, Array]]:
    """Adam's averages of g and of g², from 0 on, after each gradient."""
    m, v = np.zeros(()), np.zeros(())
    for g in gradients:
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        yield m, v


def rms_of_adam(
    seed: int,
    beta1: float,
    beta2: float,
    mean: float = 0.0,
    updates: int = 600,
    count: int = 32_000,
) -> Array:
    """The rms of Adam's update at ε = 0 under gradients mean + z, by groups of entries: (8,)."""
    source = np.random.default_rng(seed)
    drawn = (mean + source.standard_normal(count) for _ in range(updates))
    *_, (m, v) = averages(drawn, beta1, beta2)
    return np.asarray(np.sqrt((m * m / v).reshape(8, -1).mean(1)))


def loss_after(
    rate: float, samples: float, count: int, curvature: Array, noise: Array, beta: float = 0.0
) -> float:
    """The exact mean loss ½ Σ h E w² after ``count`` updates of SGD, of its average where β > 0.

    Every coordinate starts at w² = 1; its gradient is h w + ξ, E ξ² = ``noise``/``samples``. Second
    moments of (w, m) follow their own linear recursion: nothing is drawn.
    """
    h, ones = np.asarray(curvature), np.ones(len(curvature))
    fed = (1 - beta) * ones  # m' = β m + (1 − β)(h w + ξ), w' = w − η m'
    step = np.stack(
        [
            np.stack([1 - rate * fed * h, -rate * beta * ones], -1),
            np.stack([fed * h, beta * ones], -1),
        ],
        -2,
    )
    added = np.stack([-rate * fed, fed], -1)
    shock = added[:, :, None] * added[:, None, :] * (noise / samples)[:, None, None]
    moments = np.zeros((len(h), 2, 2))
    moments[:, 0, 0] = 1.0
    for _ in range(count):
        moments = step @ moments @ step.transpose(0, 2, 1) + shock
        if moments[:, 0, 0].max() > 1e6:
            return float("inf")
    return float((h * moments[:, 0, 0]).sum() / 2)


def best_of(samples: float, count: int, h: Array, noise: Array, beta: float = 0.0) -> float:
    """The lowest mean loss after ``count`` updates over constant rates, 5 % apart."""
    rates = np.exp(np.arange(np.log(3e-3), np.log(3.0), 0.05))
    return min(loss_after(float(rate), samples, count, h, noise, beta) for rate in rates)
