"""The measurement of one's own models as a document: constant or not, and what moves F."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.composing.of_verification import points
from deepnet_theory.report.numbers import depth_words, number, signed, signed_interval, true_signs
from deepnet_theory.report.update import Y_LABEL, marks, measured_range

if TYPE_CHECKING:
    from deepnet_theory.spec.results.verification import ModelMeasurement, Share

MOST_SHARES = 12  # on a page; the JSON has all


def document(measured: ModelMeasurement) -> doc.Document:
    """The whole measurement."""
    m = measured
    seeds = f"one step of {m.optimizer} at {m.measure['seeds']} seeds"
    return doc.Document(
        f"‖ΔF‖/η per token, {m.model}",
        (doc.Paragraph(answer(m)), doc.Paragraph(f"Measured after {seeds}.", aside=True)),
        (
            doc.Section("Points", (*_figures(m), points(m.points)) if m.points else ()),
            doc.Section("Exponents", (_exponents(m),) if m.points else ()),
            doc.Section(f"What moves F at {_deepest(m)}", _shares(m.shares)),
            doc.Section("Warnings", tuple(doc.Paragraph(warning) for warning in m.warnings)),
        ),
        (doc.Paragraph((m.verdict, f" ({m.device}, {m.seconds:.1f} s)")),),
    )


def three_lines(measured: ModelMeasurement) -> str:
    """The measurement as an interpreter shows it."""
    of = f"<ModelMeasurement of {measured.model}, stepped by {measured.optimizer}"
    return measured_range(of, answer(measured), measured)


def answer(measured: ModelMeasurement) -> tuple[doc.Inline, ...]:
    """What the model update does with depth, and whether it is shown to be constant."""
    return true_signs(f"‖ΔF‖ {measured.trend}; that it is constant is "), measured.verdict, "."


def figure(measured: ModelMeasurement) -> doc.Figure:
    """‖ΔF‖/η against depth, log–log, and the constant through its first point."""
    m = measured
    series = doc.Series(m.model, marks(m.points, "N"))
    first = m.points[0]
    lines = (doc.Slope("constant", 0.0, float(first.depth["N"]), first.mean),)
    caption = "Bars are 95% intervals over seeds."
    return doc.Figure((series,), lines, "N, layers", Y_LABEL, f"stepped by {m.optimizer}", caption)


def _figures(m: ModelMeasurement) -> tuple[doc.Block, ...]:
    return (figure(m),) if 0 < m.points[0].mean < float("inf") else ()


def _deepest(m: ModelMeasurement) -> str:
    return depth_words(m.points[-1].depth) if m.points else "the deepest point"


def _exponents(m: ModelMeasurement) -> doc.Table:
    rows = tuple(
        (e.share, signed(e.estimate), signed_interval(e.low, e.high), e.verdict,
         true_signs(e.because))
        for e in m.exponents
    )  # fmt: skip
    head = ("parameters", "exponent in N", "95% interval", "constant", "because")
    return doc.Table(head, rows, numbers=(1, 2), sentences=(4,))


def _shares(shares: tuple[Share, ...]) -> tuple[doc.Block, ...]:
    if not shares:
        return ()
    rows = tuple(
        (s.name, number(s.mean), f"{number(s.low)} to {number(s.high)}")
        for s in shares[:MOST_SHARES]
    )
    left = len(shares) - MOST_SHARES
    told = "Stepped alone, the parameters of a name contribute ‖ΔF‖/η:"
    rest = (doc.Paragraph(f"{left} more, each less than these.", aside=True),) if left > 0 else ()
    table = doc.Table(("name", "mean", "95% interval"), rows, numbers=(1, 2))
    return doc.Paragraph(told), table, *rest
