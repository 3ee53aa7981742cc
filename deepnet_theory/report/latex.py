"""A document as LaTeX; ``amsmath`` and ``amssymb`` suffice."""

from __future__ import annotations

import unicodedata

from deepnet_theory.report import document as doc
from deepnet_theory.report.layer import lines
from deepnet_theory.report.notation import equation_latex, inline_latex, knob_latex

PREAMBLE = r"""\documentclass{article}
\usepackage{amsmath,amssymb}
\allowdisplaybreaks
\begin{document}"""
LEVELS = ("section", "subsection", "subsubsection", "paragraph")

# a character and the words, or between dollar signs the mathematics, that print it
_WORDS = r"""
\ \textbackslash{}   { \{   } \}   $ \$   & \&   # \#   % \%   _ \_   ^ \textasciicircum{}
~ \textasciitilde{}   – --   — ---   … \ldots{}   ’ '   ‘ `   “ ``   ” ''   § \S{}
ö \"o   ü \"u   é \'e   ⁻ $^{-}$   ᵀ $^{\top}$   ½ $\frac12$   ¼ $\frac14$   ẑ $\hat{z}$
"""
_SIGNS = r"""
< <   > >   | |   − -   → \to   ↦ \mapsto   ≈ \approx   ≐ \doteq   ≤ \le   ≥ \ge   ≪ \ll   ≫ \gg
∼ \sim   ≠ \ne   ∝ \propto   · \cdot   ⋅ \cdot   × \times   ÷ \div   ± \pm   √ \surd   ∞ \infty
∂ \partial   ∇ \nabla   ∑ \sum   ∏ \prod   ∫ \int   ∘ \circ   ‖ \Vert   ∥ \Vert   ⟨ \langle
⟩ \rangle   ∈ \in   ℝ \mathbb{R}   ⊙ \odot   ⊗ \otimes   ⊤ \top   φ \varphi   ς \varsigma
"""


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _greek() -> dict[str, str]:
    """The letters whose Unicode names are LaTeX's commands, as λ is ``\\lambda``, Δ ``\\Delta``."""
    names = {chr(code): unicodedata.name(chr(code), "") for code in range(0x391, 0x3CA)}
    letters = {c: name.split()[-1].lower() for c, name in names.items() if "GREEK" in name}
    letters |= {"λ": "lambda", "Λ": "lambda"}  # which Unicode calls lamda
    capitals = {"Γ", "Δ", "Θ", "Λ", "Ξ", "Π", "Σ", "Φ", "Ψ", "Ω"}
    return {
        c: f"$\\{name.capitalize() if c in capitals else name}$"
        for c, name in letters.items()
        if c in capitals or c.islower()
    }


_PRINTED = str.maketrans(
    _greek()
    | _pairs(_WORDS)
    | {c: f"${command}$" for c, command in _pairs(_SIGNS).items()}
    | {c: f"$^{{{i}}}$" for i, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
    | {c: f"$_{{{i}}}$" for i, c in enumerate("₀₁₂₃₄₅₆₇₈₉")}
)


# a listing has typed characters alone
_TYPED = {ord(c): t for c, t in zip("─┬┐└≠×", "-+++!*", strict=True)}


def latex(document: doc.Document) -> str:
    blocks = map(block_latex, doc.in_order(document))
    return "\n\n".join((PREAMBLE, *blocks, "\\end{document}\n"))


def escape(words: str) -> str:
    return words.translate(_PRINTED)


def block_latex(block: doc.Heading | doc.Block) -> str:
    match block:
        case doc.Heading():
            return rf"\{LEVELS[block.level]}*{{{escape(block.title)}}}"
        case doc.Paragraph():
            words = _words(block.words)
            return rf"\textit{{{words}}}" if block.aside else words
        case doc.Terms():
            rows = (rf"\item[{escape(label)}] {_words(words)}" for label, words in block.rows)
            return "\n".join((r"\begin{description}", *rows, r"\end{description}"))
        case doc.Table():
            return _table(block)
        case doc.RuleBox():
            return _rule(block)
        case doc.Step():
            begin, end = rf"\begin{{equation*}}\tag{{{block.number}}}", r"\end{equation*}"
            return "\n".join((begin, equation_latex(block), end, _words(block.words)))
        case doc.Listing():
            return f"\\begin{{verbatim}}\n{block.text.rstrip()}\n\\end{{verbatim}}"
        case doc.Layer():
            shown = "\n".join((block.caption, *lines(block)))
            return f"\\begin{{verbatim}}\n{shown.translate(_TYPED)}\n\\end{{verbatim}}"
        case doc.Files():
            return escape(block.named)
        case doc.Figure() | doc.Panels():
            return rf"\textit{{{escape(block.caption)}}}"


def _table(table: doc.Table) -> str:
    """Numbers to the right; a row's sentences, which may be long, as a paragraph of the page."""
    inner = max(1, len(table.sentences))
    kinds = dict.fromkeys(table.numbers, "r")
    kinds |= dict.fromkeys(table.sentences, f"p{{{0.5 / inner:.2g}\\textwidth}}")
    columns = "".join(kinds.get(i, "l") for i in range(len(table.head)))
    head = f"{' & '.join(map(escape, table.head))} \\\\ \\hline"
    rows = (f"{' & '.join(map(_words, row))} \\\\" for row in table.rows)
    return "\n".join((rf"\noindent\begin{{tabular}}{{{columns}}}", head, *rows, r"\end{tabular}"))


def _rule(rule: doc.RuleBox) -> str:
    rows = (
        rf"{knob_latex(knob, ' &')} && \text{{({escape(owner)})}}"
        for owner, knobs in rule.rows
        for knob in knobs
    )
    return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"


def _words(words: doc.Words) -> str:
    return doc.spelled(
        words,
        escape,
        lambda formula: f"${inline_latex(formula)}$",
        lambda code: rf"\texttt{{{escape(code)}}}",
        lambda verdict: rf"\textbf{{{verdict}}}",
    )
