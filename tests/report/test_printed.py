"""One document of every kind of block, as each printer prints it: approved, to the character."""

import math
import os
import re
from pathlib import Path

import pytest
import sympy as sp

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.report import document as doc
from deepnet_theory.report.html import page
from deepnet_theory.report.latex import latex
from deepnet_theory.report.layer import lines
from deepnet_theory.report.markdown import markdown
from deepnet_theory.report.svg import differences
from deepnet_theory.report.text import coloured, text

APPROVED = Path(__file__).parent / "approved"  # `make outputs` writes them anew
N, eta, alpha_e = sp.symbols("N eta alpha_e", positive=True)
W = sp.Symbol("W", commutative=False)
LONG = (
    "a sentence that is longer than a line of the narrowest terminal, so that it has to be folded"
)


def marks(*points, spread=0.2):
    return tuple(doc.Mark(x, y, y * (1 - spread), y * (1 + spread)) for x, y in points)


def curve(label, shade, *losses, colour=0, best=None):
    points = zip((1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3), losses, strict=True)
    return doc.Curve(label, tuple(points), shade, best, colour)


FIGURE = doc.Figure(
    (
        doc.Series("rule", marks((8, 1.0), (16, 1.1), (32, 1.3)), band=marks((8, 1.0), (32, 1.2))),
        doc.Series("sgd", marks((8, 0.5), (16, 1.0), (32, 2.0), spread=0), own=False),
        doc.Series("lamb", (doc.Mark(8, 0.1, 0.0, 0.2), doc.Mark(16, math.nan, 1, 2)), False, 2),
    ),
    (doc.Slope("flat", 0.0, 8, 1.0, own=True), doc.Slope("slope +1", 1.0, 8, 0.5, colour=1)),
    "depth N", "‖ΔF‖/η", title="A figure", caption="Its caption.",
)  # fmt: skip
NAMED = doc.Figure(
    (doc.Series("fc1", marks((1e-3, 0.01))), doc.Series("query", marks((2e-3, 0.5)), own=False)),
    (doc.Slope("predicted", 1.0, 1e-3, 1e-3),), "predicted", "measured", named=True,
)  # fmt: skip
PANELS = doc.Panels(
    (
        ("one", (
            curve("N = 8", 0.0, 5.0, 3.0, 2.5, 2.6, 9.0, best=doc.Mark(4.5e-4, 2.4, 3e-4, 7e-4)),
            curve("N = 16", 1.0, 5.5, 3.5, 2.2, math.nan, math.inf),
        )),
        ("another, with a longer title", (curve("plain", 0.5, 5.0, 4.0, 3.5, 3.4, 3.3, colour=2),)),
    ),
    "learning rate", "loss", 4.2, "unigram", "What is below the line has learnt.",
)  # fmt: skip
RISING = doc.Panels(
    (("", (curve("R", 0.3, 1e-3, 1e-2, 0.3, 4.0, 0.0),)),), "rate", "largest R", None,
    logarithmic=True,
)  # fmt: skip
LAYER = doc.Layer(
    (
        doc.Branch("attention", 0, (("norm", ""), ("query 1", ""), ("value 0.5", "0.35"))),
        doc.Branch("ffn", 0, (("fc1 1", ""), ("fc2 1", "2"))),
        doc.Branch("ffn-swiglu", 1, (("gate 1", ""),), ("× 2", "× 8"), norm=True),
    ),
    "A layer.",
)
EVERYTHING = doc.Document(
    "Of everything",
    (
        doc.Paragraph(("PROVED, as ", Verdict.PROVED, " says; ", doc.Code("derive --steps"), ".")),
        doc.Paragraph((f"Beside, {LONG}: ", doc.Formula("(2*N)**(-1/4)")), aside=True),
        doc.RuleBox(
            (
                ("encoder", (
                    doc.Knob("alpha", doc.Formula("(2*N)**(1/2)"), "4"),
                    doc.Knob("beta", doc.Formula("1")),
                )),
                ("all", (doc.Knob("eta", doc.Formula("1/N"), "0.125"),)),
            ),
            "N = 8",
        ),
    ),
    (
        doc.Section("Steps", (
            doc.Step(1, eta * sp.sqrt(N), "EQUAL", 2 * N**sp.Rational(3, 4), "by hand",
                     (Verdict.PROVED,), alpha_e),
            doc.Step(2, sum(sp.Symbol(f"x_{i}") ** i for i in range(1, 12)), "AT_MOST", N * W,
                     (LONG, doc.Formula(N**2)), (Verdict.REFUTED, " beyond the bound")),
            doc.Step(13, N, "ORDER", sp.log(N), "", ("IMPOSED",)),
            doc.Step(14, N, "ASYMPTOTIC", N + 1, "where N grows"),
        )),
        doc.Section("Tables", (
            doc.table("depth | >mean | …finding", [
                ("8", "0.5", LONG), (doc.Formula("N"), "−12.25", ("a ", Verdict.UNDECIDED)),
                (doc.Code("a|b"), "", ""),
            ]),
            doc.table("name", []),
            doc.Terms((("alpha", "what multiplies the stream"), ("a longer label", LONG))),
            doc.Section("Within", (
                doc.Listing('{"a": 1,\n "<b>": "$x_1$"}'),
                doc.Section("Deepest", (doc.Paragraph("One."), doc.Paragraph("Two."))),
            )),
        ), folded=True, note="three & more"),
        doc.Section("Figures", (FIGURE, NAMED, PANELS, RISING, LAYER), long=True),
        doc.Section("Nothing", (doc.Terms(()),)),
    ),
    (doc.Files((("constants.json", '{"α": 1}'), ("more.txt", "x" * 2000))),),
)  # fmt: skip
BARS = (
    ("sgd", doc.Mark(0, 0.1, -0.1, 0.3), (0.05, 0.15, 0.25)),
    ("lamb", doc.Mark(0, -0.3, -0.4, -0.2), (-0.3,)),
)
PRINTERS = {
    "txt": text, "md": markdown, "tex": latex, "html": page,
    "coloured.txt": lambda of: "\n".join((coloured(text(of)), *lines(LAYER))),
    "svg": lambda _: differences(BARS, "loss less the rule's", ("better", "worse")).svg,
}  # fmt: skip


@pytest.mark.parametrize("form", PRINTERS)
def test_a_document_of_everything_is_printed_as_approved(form, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed = re.sub(r"<style>.*?</style>", "", PRINTERS[form](EVERYTHING), flags=re.S)
    file = APPROVED / f"everything.{form}"
    if os.environ.get("APPROVE"):
        file.write_text(printed, encoding="utf-8")
    assert printed == file.read_text(encoding="utf-8")
