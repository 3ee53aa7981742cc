"""Measures and draws a picture of the home page: the increment explosion, and its absence.

    python docs/picture.py

Post-LN encoders stepped once by Adam on text: the plain network and the derived rule.
"""

from __future__ import annotations

from pathlib import Path

import deepnet_theory as dt

DEPTHS = [4, 8, 16, 32, 64]


def main() -> None:
    """Measure both rules and draw the picture."""
    derivation = dt.derive(optimizer="adam", closure="published")
    plain = dt.own_rule(derivation.selection, "1", "1")
    measured = dt.verify(derivation, DEPTHS, seeds=4)
    # of the plain network nothing is predicted: its near-identity assumption fails
    rival = dt.verify(derivation, DEPTHS, rule=plain, seeds=4)
    dt.plot(measured, rivals=(rival,)).save(Path(__file__).parent / "update.svg")


if __name__ == "__main__":
    main()
