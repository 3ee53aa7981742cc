"""The arms of ``common_mode.py``, and R of each by the common part alone beside the measured.

The first steps have a closed form, :func:`rise`. Beyond them the same parts are followed step by
step, with Adam's momentum and the head that learns the frequencies. No number is fitted.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, replace

import numpy as np

from deepnet_theory.definitions.placement import Placement, placement
from deepnet_theory.laboratory.runs import DROWNED
from deepnet_theory.laboratory.text import BYTES

TOKENS, NAN = 64, math.nan
C1 = math.sqrt(2 / math.pi)  # E|ξ| of a standard normal ξ


def limit(where: Placement, weight: float) -> float:
    """The share of an output of size 1 that is a token's own in a deep stack, at one R."""
    return 1 / (math.cosh(weight) if where.normalises_sum else math.hypot(1, weight))


def rise(width: int, hidden: int, branches: float = 1.0) -> tuple[float, float]:
    r"""A and γ of R under aligned sign-like steps, :math:`s = \sum_t\eta_t` the summed rate.

    .. math:: \frac{dR}{ds} = A + \gamma R, \qquad
              A = \frac{S}{2\alpha}\,\frac{m\,\sigma_z}{\sqrt{2\pi}}, \qquad
              \gamma = \frac{S}{2\alpha}\,\frac d2\,c_1\Bigl(2 + \frac{m\,\sigma_2}{2\sqrt d}\Bigr)

    Attention and ReLU feed-forward sublayers by turns, ``hidden`` m, Xavier at gain 1, no rate
    multipliers; ``branches`` is S/α. A step moves each entry of a matrix by η, all along one
    direction, so that the last matrix moves its branch by η‖h̄‖₁ with h̄ the tokens' mean of what
    it reads: mσ_z/√(2π) behind a ReLU, where inputs have size σ_z = √(2d/(d + m)), and c₁da for
    values, where a ≈ R/2 is the share of the stream that is common, taken over the depth. The
    first matrix shifts what it yields by p = ηda, where the last one's entries add c₁p, or
    c₁mσ₂p/(2√d) behind the ReLU, σ₂ = √(2/(d + m)). No head is in it: a sign has no size. Good
    up to R of one.

    Source: derived here.
    """
    half = branches / 2
    entry = math.sqrt(2 / (width + hidden))
    first = half * hidden * entry * math.sqrt(width) / math.sqrt(2 * math.pi)
    growth = half * width / 2 * C1 * (2 + hidden * entry / (2 * math.sqrt(width)))
    return first, growth


def summed_rate(width: int, hidden: int, branches: float = 1.0, weight: float = 1.0) -> float:
    r"""Σ_t η_t when R reaches ``weight``, :math:`\ln(1 + \gamma R/A)/\gamma`."""
    first, growth = rise(width, hidden, branches)
    return math.log1p(growth * weight / first) / growth


@dataclass(frozen=True)
class Arm:
    """One way to train; the defaults are the case that collapses."""

    head: float = 0.02  # standard deviation; NaN: Xavier's
    bias: str = "none"  # "zero" or "unigram": what it starts at
    positions: str = "learned"  # beside tokens of size 1: "none", "noise" of each batch anew
    size: float = 1.0  # of the positions
    warm_up: int = 15  # steps; below 0: steps at rate 0, then the full rate
    rate: float = 8e-3
    beta1: float = 0.9
    width: int = 64
    layers: int = 8
    text: str = "the package's"
    placement: str = "post-ln"

    def eta(self, step: int) -> float:
        if self.warm_up < 0:
            return self.rate * (step >= -self.warm_up)
        return self.rate * min(1.0, (step + 1) / max(1, self.warm_up))

    @property
    def of_tokens(self) -> float:
        """The share of what enters the stack that a token's embedding has."""
        return 1.0 if self.positions == "none" else 1 / math.hypot(1.0, self.size)

    @property
    def sigma(self) -> float:
        return math.sqrt(2 / (self.width + BYTES)) if math.isnan(self.head) else self.head

    def __str__(self) -> str:
        usual = asdict(Arm())
        own = {k: v for k, v in asdict(self).items() if v != usual[k]}
        own |= {"head": "Xavier"} if math.isnan(self.head) else {}
        return ", ".join(f"{k.replace('_', '-')} {v}" for k, v in own.items()) or "the usual arm"


SWITCHES = (
    Arm(), Arm(head=0.0), Arm(head=NAN), Arm(head=0.0, bias="unigram"), Arm(positions="none"),
    Arm(warm_up=1), Arm(positions="noise"), Arm(size=0.1), Arm(beta1=0.0), Arm(warm_up=-15),
    Arm(placement="branch-multiplier"), Arm(head=NAN, warm_up=1), Arm(warm_up=1, rate=2e-3),
    Arm(head=0.0, positions="none"), Arm(bias="zero"), Arm(head=0.04),
    Arm(layers=16), Arm(layers=16, warm_up=1),
)  # fmt: skip
AGAIN = (Arm(), Arm(head=NAN), Arm(head=0.0, bias="unigram"), Arm(positions="none"), Arm(warm_up=1))
ARMS = (
    *SWITCHES,
    *(replace(arm, text="source code") for arm in AGAIN),
    *(replace(arm, width=128, rate=4e-3) for arm in AGAIN[:3]),
)
MORE = (Arm(head=0.0), Arm(head=0.04), Arm(bias="zero"), Arm(beta1=0.0), Arm(warm_up=-15))
# R rises as rate times width
WIDE = tuple(replace(arm, width=128, rate=4e-3) for arm in (*AGAIN, *MORE))


def predicted(arm: Arm, frequencies: np.ndarray, noise: float, steps: int) -> list[float]:
    """R at every step of the common part alone: signs along one direction, and the head's growth.

    Clocks of the last and first matrices and of each logit, by Adam's m/√v. The signal is the
    derivative along the common direction, which dies as the stream becomes common; v also has what
    lies across it, and the scatter of the frequencies from batch to batch, ``noise`` in all.
    """
    where, d, hidden = placement(arm.placement), arm.width, 4 * arm.width
    entry, root = math.sqrt(2 / (d + hidden)), math.sqrt(d)
    bias = np.log(frequencies) * (arm.bias == "unigram")
    error = softmax(bias) - frequencies
    drawn = -arm.sigma * error / max(1e-6, float(np.linalg.norm(error)))  # as the head starts
    scatter = noise * np.sqrt(frequencies)
    alike = (frequencies**2).sum() * arm.of_tokens**2  # mean cosine between tokens that enter
    last, shift, head, found = 0.0, 0.0, np.zeros(len(error)), []
    m: list[np.ndarray] = [np.zeros(())] * 3
    v: list[np.ndarray] = [np.zeros(())] * 3
    for t in range(steps):
        r = found[-1] if found else 0.0
        left = np.array([limit(where, r * (i + 0.5) / 32) for i in range(32)])  # over the depth
        mean = float(np.sqrt(1 - left**2 * (1 - alike)).mean())
        hidden_mean, values = folded(entry * root, shift) / 2, folded(mean, shift)
        r = last * (hidden * hidden_mean + d * values)
        r = (r + shift * C1 * (1 + hidden * entry / (2 * root))) / 2
        found.append(r)
        own = limit(where, r)
        share = math.sqrt(1 - own**2 * (1 - alike))
        error = softmax(bias + d * (C1 * drawn + head) * share) - frequencies
        along = own**2 if where.normalises_sum else own**3  # d share/dR
        across = float((own / left).mean()) if where.normalises_sum else own
        signal = abs(error @ (C1 * drawn + head)) * along
        size = float(np.linalg.norm(error))
        noises = (
            math.hypot(noise, math.sqrt(1 - C1**2) * size) * arm.sigma * across,
            float(np.linalg.norm(scatter * head)) * along,
        )
        back = C1 * entry + last
        pairs = [(signal * by, math.hypot(*noises) * by) for by in (hidden_mean, mean * back)]
        moved = []
        for i, (g, n) in enumerate([*pairs, (-error * share, scatter * share)]):
            m[i] = arm.beta1 * m[i] + (1 - arm.beta1) * g
            v[i] = 0.95 * v[i] + 0.05 * (g**2 + n**2)
            unbiased = v[i] / (1 - 0.95 ** (t + 1))
            moved.append(
                arm.eta(t) * m[i] / (1 - arm.beta1 ** (t + 1)) / (np.sqrt(unbiased) + 1e-12)
            )
        last, shift, head = last + moved[0], shift + d * mean * moved[1], head + moved[2]
    return found


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def folded(size: float, mean: float) -> float:
    """E|size·ξ + mean| of a standard normal ξ."""
    if size < 1e-9:
        return abs(mean)
    x = mean / size
    return size * C1 * math.exp(-(x**2) / 2) + mean * math.erf(x / math.sqrt(2))


def interval(count: int, of: int) -> str:
    """Wilson's interval of a share, 95 %."""
    z2 = 1.96**2
    middle, half = count + z2 / 2, 1.96 * math.sqrt(count * (of - count) / of + z2 / 4)
    low, high = (middle - half) / (of + z2), (middle + half) / (of + z2)
    return f"{count} of {of} ({low:.2f} to {high:.2f})"


@dataclass(frozen=True)
class Outcome:
    """R (seeds, steps), its prediction, and the text."""

    arm: Arm
    r: np.ndarray
    predicted: list[float]
    text: str

    @property
    def of_clock(self) -> float:
        """Σ η when R reaches 1, the median of seeds over what is derived."""
        clock = np.cumsum([0.0] + [self.arm.eta(t) for t in range(self.r.shape[1] - 1)])
        if not (reached := [r[: r.argmax() + 1] for r in self.r if r.max() > 1]):
            return NAN
        found = statistics.median(np.interp(1.0, r, clock[: len(r)]) for r in reached)
        return float(found) / summed_rate(self.arm.width, 4 * self.arm.width)

    @property
    def of_rise(self) -> list[float]:
        """R over what is predicted, at the steps that are predicted from 0.3 to 4."""
        pairs = list(zip(np.median(self.r, 0), self.predicted, strict=True))
        risen = next((t for t, (_, p) in enumerate(pairs) if p > 4), len(pairs))
        return [float(m / p) for m, p in pairs[:risen] if p >= 0.3]

    @property
    def of_peak(self) -> float:
        return float(np.median(self.r.max(1)) / max(self.predicted)) if self.of_rise else NAN

    def row(self) -> str:
        peaks, where = self.r.max(1), placement(self.arm.placement)
        drowned = sum(limit(where, r) < DROWNED for r in self.r[:, -1])
        cells = (
            str(self.arm), f"{self.of_clock:.2f}",
            f"{min(self.of_rise, default=NAN):.2f} to {max(self.of_rise, default=NAN):.2f}",
            f"{np.median(peaks):.1f} ({peaks.min():.1f} to {peaks.max():.1f})",
            f"{np.median(self.r.argmax(1)):.0f}", f"{max(self.predicted):.1f}",
            f"{np.median(self.r[:, -1]):.1f}", interval(drowned, len(peaks)),
        )  # fmt: skip
        return ("| " + " | ".join(cells) + " |").replace("nan to nan", "–").replace("nan", "–")
