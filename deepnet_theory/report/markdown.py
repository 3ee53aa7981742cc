"""A document as Markdown, with mathematics between dollar signs."""

from __future__ import annotations

from deepnet_theory.report import document as doc
from deepnet_theory.report.layer import lines
from deepnet_theory.report.notation import equation_latex, inline_latex, knob_latex

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#$"})


def markdown(document: doc.Document) -> str:
    """The whole document, paragraph by paragraph."""
    return "\n\n".join(map(_block, doc.in_order(document)))


def _block(block: doc.Heading | doc.Block) -> str:
    match block:
        case doc.Heading():
            return f"{'#' * (block.level + 1)} {_escape(block.title)}"
        case doc.Paragraph():
            return f"*{_words(block.words)}*" if block.aside else _words(block.words)
        case doc.Terms():
            return "\n".join(f"- **{_escape(label)}**: {_words(w)}" for label, w in block.rows)
        case doc.Table():
            return _table(block)
        case doc.RuleBox():
            return _rule(block)
        case doc.Step():
            equation = f"{equation_latex(block)} \\tag{{{block.number}}}"
            return f"$$\n{equation}\n$$\n\n{_words(block.words)}"
        case doc.Listing():
            return f"```\n{block.text.rstrip()}\n```"
        case doc.Layer():
            shown = "\n".join(lines(block))
            return f"{_escape(block.caption)}\n\n```\n{shown}\n```"
        case doc.Files():
            return _escape(block.named)
        case doc.Figure() | doc.Panels():
            return f"*{_escape(block.caption)}*"


def _rule(rule: doc.RuleBox) -> str:
    lines = [
        f"- {_escape(owner)}: {', '.join(f'${knob_latex(knob)}$' for knob in knobs)}"
        for owner, knobs in rule.rows
    ]
    return "\n".join([*lines, *([f"\nValues at {rule.depth}."] if rule.depth else [])])


def _table(table: doc.Table) -> str:
    rules = ("---:" if i in table.numbers else "---" for i in range(len(table.head)))
    lines = [map(_escape, table.head), rules, *(map(_words, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _words(words: doc.Words) -> str:
    return doc.spelled(
        words,
        _escape,
        lambda formula: f"${inline_latex(formula)}$",
        "`{}`".format,
        "**{}**".format,
    )


def _escape(words: str) -> str:
    """Words with nothing taken for markup."""
    return words.translate(_SPECIAL)
