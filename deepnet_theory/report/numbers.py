"""Numbers as a person reads them: a true minus sign, and no sign where nothing but zeros is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

GREEK = {
    "alpha": "α", "beta": "β", "kappa": "κ", "eta": "η", "rho": "ρ", "theta": "θ", "tau": "τ",
    "lambda": "λ", "sigma": "σ", "delta": "δ", "epsilon": "ε", "phi": "φ",
    "gamma": "γ", "mu": "μ", "omega": "ω", "xi": "ξ",
}  # fmt: skip


def number(value: float, digits: str = ".4g") -> str:
    """A number with a minus sign where it is negative and not rounded to zero."""
    return _minus(f"{value:{digits}}").removeprefix("+")


def signed(value: float, digits: str = ".4f") -> str:
    """An exponent with its sign, which zero has none of."""
    return _minus(f"{value:+{digits}}")


def true_signs(words: str) -> str:
    """A sentence of measurement whose numbers have the same signs: "[-0.0, -1]" is "[0.0, −1]"."""
    return re.sub(r"(?<![^\s(\[^])[-+]\d[\d.]*", lambda found: _minus(found[0]), words)


def _minus(shown: str) -> str:
    if shown[:1] in "+-" and not shown.strip("+-0."):
        return shown[1:]
    return shown.replace("-", "−")


def signed_interval(low: float, high: float, digits: str = ".4f") -> str:
    return f"{signed(low, digits)} to {signed(high, digits)}"


def interval(low: float | None, high: float | None, digits: str = ".4g") -> str:
    """The ends of an interval of sizes; "-" where there is none."""
    return (
        "-" if low is None or high is None else f"{number(low, digits)} to {number(high, digits)}"
    )


def known(value: float | None, digits: str = ".4g") -> str:
    """A number, or "-" where there is none."""
    return "-" if value is None else number(value, digits)


def predicted(exponent: float | None, missing: str) -> str:
    """A predicted exponent, or what is said where there is none."""
    return missing if exponent is None else signed(exponent, ".4g")


def power(exponent: float | Fraction) -> str:
    """A slope in words: 0 is "flat", 0.5 is "slope +1/2"."""
    if exponent == 0:
        return "flat"
    fraction = Fraction(exponent).limit_denominator(64)
    return f"slope {'+' if exponent > 0 else '−'}{abs(fraction)}"


def depth_words(depth: Mapping[str, int]) -> str:
    """A depth in words: ``N = 8, M = 6``."""
    return ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())
