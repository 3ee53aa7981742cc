"""Numbers as a person reads them: a true minus sign, and no sign where nothing but zeros is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

GREEK = {
    "alpha": "α", "beta": "β", "kappa": "κ", "eta": "η", "rho": "ρ", "theta": "θ", "tau": "τ",
    "lambda": "λ", "sigma": "σ", "delta": "δ", "epsilon": "ε", "phi": "φ",
    "gamma": "γ", "mu": "μ", "omega": "ω", "xi": "ξ",
}  # fmt: skip
SIGNED = "+.4f"  # the form of an exponent


def number(value: float | None, form: str = ".4g", missing: str = "-") -> str:
    """A number with a minus sign where it is negative and not rounded to zero."""
    return missing if value is None else _minus(f"{value:{form}}")


def interval(low: float | None, high: float | None, form: str = ".4g") -> str:
    """The ends of an interval; "-" where there is none, as of a single seed."""
    if low is None or high is None or not math.isfinite(high - low):
        return "-"
    return f"{number(low, form)} to {number(high, form)}"


def true_signs(words: str) -> str:
    """A sentence of measurement whose numbers have the same signs: "[-0.0, -1]" is "[0.0, −1]"."""
    return re.sub(r"(?<![^\s(\[^])[-+]\d[\d.]*", lambda match: _minus(match[0]), words)


def _minus(shown: str) -> str:
    if shown[:1] in "+-" and not shown.strip("+-0."):
        return shown[1:]
    return shown.replace("-", "−")


def power(exponent: float | Fraction) -> str:
    """A slope in words: 0 is "flat", 0.5 is "slope +1/2"."""
    if exponent == 0:
        return "flat"
    fraction = Fraction(exponent).limit_denominator(64)
    return f"slope {'+' if exponent > 0 else '−'}{abs(fraction)}"


def depth_words(depth: Mapping[str, int]) -> str:
    """A depth in words: ``N = 8, M = 6``."""
    return ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())
