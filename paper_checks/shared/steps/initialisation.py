r"""What an initialisation by the fan-in does to one fully connected layer.

.. math:: y = xW + b,\quad x' = f(y):\qquad
          \operatorname{Var} W_{ik} = \frac{\beta^2}{n},\ b = 0
          \ \Rightarrow\ E\,y_k^2 = \beta^2\,\frac{\|x\|^2}{n},

and with ReLU and 2β²/n the same for x'.

Source: layer cake, §3.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.proof.algebra import beta
from deepnet_theory.proof.step import Section, Step
from paper_checks.shared.expectation import Gaussian, Index, Known, Tensor, moment, norm_of
from paper_checks.shared.steps.checks import QUADRATURE

SOURCE = "layer cake, §3"
SECTION = Section("A fully connected layer", SOURCE)

_n = sp.Symbol("n", positive=True)
_s = sp.Symbol("s", positive=True)  # standard deviation of a hidden unit's input
_h = sp.Symbol("h", real=True)
norm_x = norm_of("x")
_i, _k = Index("i", _n), Index("k", _n)
_x = Tensor("x", (_n,))
_KNOWN = (Known.norm(norm_x, _x),)


def initialisation_steps() -> tuple[Step, ...]:
    """The mean square of a linear layer's entry, and of its rectified entry."""
    w = Tensor("W", (_n, _n), Gaussian(beta**2 / _n))
    entry = (_x[_i] * w[_i, _k]).sum(_i)
    density = sp.exp(-(_h**2) / (2 * _s**2)) / sp.sqrt(2 * sp.pi) / _s
    return (
        moment(
            SECTION,
            "layer-forward",
            entry * entry,
            ("y_k^2", r"y_k^2"),
            (
                "y = xW + b with b = 0 and variance beta^2/n: an entry's mean square is beta^2 "
                "times the input's, for every fixed x"
            ),
            _KNOWN,
            source=f"{SOURCE}, first displayed equation and below",
        ),
        SECTION.equal(
            "layer-forward-relu",
            sp.Integral(_h**2 * density, (_h, 0, sp.oo)),
            _s**2 / 2,
            (
                "x' = f(y) with f = ReLU: half of the mean square passes, so the variance "
                "2*beta^2/n, s^2 = 2*beta^2*|x|^2/n, gives beta^2 again"
            ),
            source=f"{SOURCE}, second displayed equation and last paragraph",
            uses=("layer-forward",),
            checks=(QUADRATURE,),
        ),
    )


def given() -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    return (_n, _s, norm_x, beta)
