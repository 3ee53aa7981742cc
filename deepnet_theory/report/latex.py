"""A derivation as LaTeX, its formulas by SymPy's printer; XeLaTeX or LuaLaTeX sets it."""

from __future__ import annotations

from collections.abc import Iterator

from deepnet_theory.report import document as doc
from deepnet_theory.report.notation import equation_latex, formula_latex

PREAMBLE = r"""\documentclass{article}
\usepackage{amsmath,amssymb,fontspec,unicode-math}
\allowdisplaybreaks
\begin{document}"""
LEVELS = ("section", "subsection", "subsubsection", "paragraph")
_TYPED = str.maketrans(
    {c: f"\\{c}" for c in "{}$&#%_"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)


def latex(document: doc.Document) -> str:
    """A whole LaTeX file."""
    return "\n\n".join((PREAMBLE, *_blocks(document, 0), "\\end{document}\n"))


def _blocks(document: doc.Document, level: int) -> Iterator[str]:
    yield rf"\{LEVELS[level]}*{{{document.title.translate(_TYPED)}}}"
    for block in (block for block in document.body if block):
        match block:
            case doc.Document():
                yield from _blocks(block, level + 1)
            case doc.TableBlock():
                lines = filter(None, (block.head, *block.rows))
                rows = (r"\item " + " --- ".join(map(_words, line)) for line in lines)
                yield "\n".join((r"\begin{itemize}", *rows, r"\end{itemize}"))
            case doc.Proposition():
                begin = rf"\begin{{equation*}}\tag{{{block.number}}}"
                reason = _words((f"{block.step.because} ", block.verdict, f" {block.fails}"))
                yield "\n".join((begin, equation_latex(block.step), r"\end{equation*}", reason))
            case doc.Listing():
                yield f"\\begin{{verbatim}}\n{block.text.rstrip()}\n\\end{{verbatim}}"
            case str() | tuple():
                yield _words(block)


def _words(words: doc.Words) -> str:
    return doc.joined(
        words,
        lambda formula: f"${formula_latex(formula)}$",
        r"\textbf{{{}}}",
        lambda text: text.translate(_TYPED),
    )
