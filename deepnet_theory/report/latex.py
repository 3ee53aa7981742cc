"""A derivation as the body of a LaTeX document; ``amsmath`` and ``amssymb`` suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.report.notation import RELATION_LATEX, expression_latex, formula_latex
from deepnet_theory.report.outline import (
    conclusion,
    owner,
    sections,
    setting,
    support,
    title,
)

if TYPE_CHECKING:
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.symbolic.proof.step import Step

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "→": r"$\to$",
    "↦": r"$\mapsto$",
    "≈": r"$\approx$",
    "≐": r"$\doteq$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≪": r"$\ll$",
    "≫": r"$\gg$",
    "∼": r"$\sim$",
    "≠": r"$\ne$",
    "∝": r"$\propto$",
    "·": r"$\cdot$",
    "⋅": r"$\cdot$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "±": r"$\pm$",
    "√": r"$\surd$",
    "∞": r"$\infty$",
    "∂": r"$\partial$",
    "∇": r"$\nabla$",
    "Σ": r"$\Sigma$",
    "∑": r"$\sum$",
    "Π": r"$\Pi$",
    "∏": r"$\prod$",
    "‖": r"$\Vert$",
    "∥": r"$\Vert$",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
    "∈": r"$\in$",
    "ℝ": r"$\mathbb{R}$",
    "⊙": r"$\odot$",
    "⊗": r"$\otimes$",
    "⊤": r"$\top$",
    "ᵀ": r"$^{\top}$",
    "−": "$-$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
    "§": r"\S{}",
    "∫": r"$\int$",
    "∘": r"$\circ$",
    "ẑ": r"$\hat z$",
    "½": r"$\frac12$",
    "¼": r"$\frac14$",
    "λ": r"$\lambda$",
    "Λ": r"$\Lambda$",
    "Δ": r"$\Delta$",
    "Θ": r"$\Theta$",
    "Φ": r"$\Phi$",
    "Ω": r"$\Omega$",
    "ö": r"\"o",
    "ü": r"\"u",
    "é": r"\'e",
}
_GREEK = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
_GREEK += ["iota", "kappa", "lambda", "mu", "nu", "xi"]
_SPECIAL |= {chr(0x3B1 + i): rf"$\{name}$" for i, name in enumerate(_GREEK)}
_SPECIAL |= {"π": r"$\pi$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$", "φ": r"$\varphi$"}
_SPECIAL |= {"χ": r"$\chi$", "ψ": r"$\psi$", "ω": r"$\omega$"}
_SPECIAL |= {c: rf"$^{{{i}}}$" for i, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {"⁻": "$^{-}$"}
_SPECIAL |= {c: rf"$_{{{i}}}$" for i, c in enumerate("₀₁₂₃₄₅₆₇₈₉")}


PREAMBLE = (
    r"\documentclass{article}",
    r"\usepackage{amsmath,amssymb}",
    r"\allowdisplaybreaks",
    r"\begin{document}",
)


def escape(words: str) -> str:
    """Words as LaTeX: special characters escaped, mathematical signs as mathematics."""
    return "".join(_SPECIAL.get(character, character) for character in words)


def equation(step: Step) -> str:
    """``lhs relation rhs`` as LaTeX."""
    sign = RELATION_LATEX[step.relation.name]
    right = expression_latex(step.rhs)
    if step.relation.name in ("ORDER", "BOUND"):
        right = rf"\left({right}\right)"
    return f"{expression_latex(step.lhs)} {sign} {right}"


def latex(derivation: Derivation) -> str:
    """The whole derivation as a document that LaTeX compiles as it stands."""
    lines = [
        *PREAMBLE,
        rf"\section*{{{escape(title(derivation.selection))}}}",
        r"\begin{description}",
    ]
    for label, value in setting(derivation):
        lines.append(rf"\item[{escape(label)}] \texttt{{{escape(value)}}}")
    lines.append(r"\end{description}")
    for section in sections(derivation):
        lines += ["", rf"\subsection*{{{escape(section.title)}}}"]
        for number, step in section.steps:
            rests = support(derivation, step)
            tail = f"{rests}; {step.source}" if rests else step.source
            lines += [
                rf"\begin{{equation*}}\tag{{{number}}}",
                equation(step),
                r"\end{equation*}",
                f"{escape(step.because)} [{escape(tail)}]",
                "",
            ]
        lines.pop()
    lines += [r"\subsection*{Rule}", rule_latex(derivation)]
    if derivation.rule.meaning:
        lines.append(escape(derivation.rule.meaning))
    if derivation.consequences:
        lines += [r"\subsection*{Consequences}", r"\begin{description}"]
        for c in derivation.consequences:
            whose = c.part if c.sublayer == "*" else f"{c.part}, {c.sublayer}"
            words = ". ".join(w.rstrip(".") for w in (c.meaning, c.remark) if w)
            lines.append(
                rf"\item[{escape(c.name)} ({escape(whose)})] "
                rf"${expression_latex(c.value)}$. {escape(words)}"
            )
        lines.append(r"\end{description}")
    if derivation.assumptions:
        lines += [r"\subsection*{Assumptions}", r"\begin{description}"]
        for a in derivation.assumptions:
            lines.append(rf"\item[{escape(a.name)}] {escape(a.statement)}")
        lines.append(r"\end{description}")
    for remark in derivation.remarks:
        lines += ["", rf"\textit{{Remark.}} {escape(remark)}"]
    lines += ["", escape(conclusion(derivation)), r"\end{document}", ""]
    return "\n".join(lines)


def rule_latex(derivation: Derivation) -> str:
    """The rule alone, as a display: one line for each entry and knob."""
    depth = dict(derivation.values)
    rows = []
    for entry in derivation.rule.entries:
        values = entry.at(**depth) if depth else None
        for index, (name, formula) in enumerate((("alpha", entry.alpha), ("beta", entry.beta))):
            value = rf" = {values[index]:.6g}" if values and formula != "1" else ""
            rows.append(
                rf"\{name} &= {formula_latex(formula)}{value} && \text{{({escape(owner(entry))})}}"
            )
    if derivation.rule.eta != "1":
        value = rf" = {derivation.rule.eta_at(**depth):.6g}" if depth else ""
        rows.append(rf"\eta &\propto {formula_latex(derivation.rule.eta)}{value} &&")
    return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"
