"""Measures and draws a picture of the home page: the increment explosion, and its absence.

    python docs/picture.py

Post-LN encoders stepped once by Adam on text: the plain network beside the derived rule.
"""

from __future__ import annotations

from pathlib import Path

import deepnet_theory as dt
from deepnet_theory.cli.experiments import predict
from deepnet_theory.definitions.files import write_text
from deepnet_theory.report.document import Figure, Mark, Series, Slope
from deepnet_theory.report.svg import drawn

DEPTHS = [4, 8, 16, 32, 64]


def marks(measured: dt.Verification) -> tuple[Mark, ...]:
    """The points of a measurement."""
    return tuple(Mark(p.depth["N"], p.mean, p.low, p.high) for p in measured.points)


def main() -> None:
    """Measure both rules and write the picture."""
    derivation = dt.derive(optimizer="adam")
    plain = dt.own_rule(derivation.selection, "1", "1")
    series, slopes = [], []
    for rule, label, own in ((None, "derived rule", True), (plain, "plain post-LN", False)):
        measured = dt.verify(derivation, DEPTHS, rule=rule, seeds=4)
        points = marks(measured)
        series.append(Series(label, points, own))
        exponent = predict(derivation, rule).exponents[0].exponent
        if own and exponent is not None:
            slopes.append(
                Slope("derived rule,\npredicted flat", float(exponent), 4, points[0].mean, own)
            )
        else:  # its near-identity assumption fails: what was measured is drawn, nothing predicted
            slope = measured.exponents[0].estimate
            words = f"plain post-LN,\nmeasured N^{slope:.2f}"
            slopes.append(Slope(words, slope, points[2].x, points[2].mean))
    title = "One step of Adam on a post-LN encoder"
    figure = Figure(tuple(series), tuple(slopes), "N, layers", "‖ΔF‖/η per token", title)
    write_text(Path(__file__).parent / "update.svg", drawn(figure).svg + "\n")


if __name__ == "__main__":
    main()
