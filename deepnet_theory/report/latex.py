"""A derivation as LaTeX, its formulas by SymPy's printer; XeLaTeX or LuaLaTeX sets it."""

from __future__ import annotations

from collections.abc import Iterator

from sympy.printing.latex import latex as printed

from deepnet_theory.report import document as doc
from deepnet_theory.report.notation import FUNCTION, SIGN, formula_latex

PREAMBLE = r"""\documentclass{article}
\usepackage{amsmath,amssymb,fontspec,unicode-math}
\allowdisplaybreaks
\begin{document}"""
LEVELS = ("section", "subsection", "subsubsection", "paragraph")
_TYPED = str.maketrans(
    {c: f"\\{c}" for c in "{}$&#%_"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)
_COMMANDS = {"∼": r"\sim", "≤": r"\le", "Θ": r"\Theta", "O": "O", "=": "="}


def latex(document: doc.Document) -> str:
    """A whole LaTeX file."""
    blocks = (line for block in doc.in_order(document) for line in _block(block))
    return "\n\n".join((PREAMBLE, *blocks, "\\end{document}\n"))


def _block(block: doc.Heading | doc.Block) -> Iterator[str]:
    match block:
        case doc.Heading():
            yield rf"\{LEVELS[block.level]}*{{{_escape(block.title)}}}"
        case doc.Paragraph():
            yield _words(block.words)
        case doc.Terms() | doc.Table():
            rows = (r"\item " + " --- ".join(map(_words, row)) for row in block.rows)
            yield "\n".join((r"\begin{itemize}", *rows, r"\end{itemize}"))
        case doc.RuleBox():
            lines = (rf"{knob_latex(k)} && \text{{({_escape(owner)})}}"
                     for owner, knobs in block.rows for k in knobs)  # fmt: skip
            yield "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"
        case doc.Step():
            begin = rf"\begin{{equation*}}\tag{{{block.number}}}"
            yield "\n".join((begin, _equation(block), r"\end{equation*}", _words(block.words)))
        case doc.Listing():
            yield f"\\begin{{verbatim}}\n{block.text.rstrip()}\n\\end{{verbatim}}"


def _equation(step: doc.Step) -> str:
    sign, function = SIGN.get(step.relation, "="), FUNCTION.get(step.relation, "")
    right = str(printed(step.rhs))
    right = rf"{_COMMANDS[function]}\left({right}\right)" if function else right
    return f"{printed(step.lhs)} {_COMMANDS[sign]} {right}"


def knob_latex(knob: doc.Knob) -> str:
    r"""``\alpha &= formula = value``."""
    sign = r"\propto" if knob.symbol == "eta" else "="
    value = f" = {knob.value}" if knob.value else ""
    return rf"\{knob.symbol} &{sign} {inline_latex(knob.formula)}{value}"


def inline_latex(formula: doc.Formula) -> str:
    shown = formula.expression
    return formula_latex(shown) if isinstance(shown, str) else str(printed(shown))


def _escape(words: str) -> str:
    return words.translate(_TYPED)


def _words(words: doc.Words) -> str:
    return doc.spelled(
        words,
        _escape,
        lambda formula: f"${inline_latex(formula)}$",
        lambda code: rf"\texttt{{{_escape(code)}}}",
        lambda verdict: rf"\textbf{{{verdict}}}",
    )
