"""A prediction of ‖ΔF‖/η in absolute size as a document: the points, and what each kind moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.numbers import depth_words, number

if TYPE_CHECKING:
    from deepnet_theory.spec.results.prediction import UpdatePrediction


def document(prediction: UpdatePrediction) -> doc.Document:
    """‖ΔF‖/η at every depth, the shares at the deepest, and where the prediction ends."""
    select, measure = prediction.select, prediction.measure
    stepped = select.get("optimizer") or select.get("update")
    told = ", ".join(f"{key} {measure[key]}" for key in ("data", "width", "tokens", "step"))
    known = f"From single sublayers, with no free constant: {told}."
    over = f"Intervals are over {measure['seeds']} seeds, each with data of its own."
    points = tuple(
        (depth_words(p.depth), number(p.mean), _interval(p.low, p.high), number(p.identity))
        for p in prediction.points
    )
    shares = tuple(
        (s.part, s.name, number(s.mean), _interval(s.low, s.high)) for s in prediction.shares
    )
    deepest = depth_words(prediction.points[-1].depth)
    network = f"{select['placement']} {select['stack']} stepped by {stepped}"
    return doc.Document(
        f"‖ΔF‖/η per token, predicted: {network}",
        (doc.Paragraph(f"{known} {over}", aside=True),),
        (
            doc.Section(
                "Points",
                (doc.Table(("depth", "‖ΔF‖/η", "95% interval", "S r²"), points, (1, 2, 3)),),
            ),
            doc.Section(
                f"Stepped alone, at {deepest}",
                (doc.Table(("of", "parameters", "‖ΔF‖/η", "95% interval"), shares, (2, 3)),),
            ),
            doc.Section("Warnings", tuple(doc.Paragraph(w) for w in prediction.warnings)),
        ),
    )


def _interval(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}"
