"""A document as HTML: a page of its own, or a fragment that a notebook shows."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from html import escape
from pathlib import Path

from deepnet_theory.report import document as doc
from deepnet_theory.report import layer
from deepnet_theory.report.mathml import equation_mathml, inline_mathml, knob_mathml, math, width
from deepnet_theory.report.panels import panels
from deepnet_theory.report.svg import drawn

# Printing shows what is folded; browsers that know ::details-content do so from the style alone.
_UNFOLD = (
    "addEventListener('beforeprint',()=>document.querySelectorAll('details:not(.long)')"
    ".forEach(d=>d.open=true))"
)

_GREEK = {
    "alpha": "α", "beta": "β", "eta": "η", "theta": "θ", "kappa": "κ", "rho": "ρ",
    "lambda": "λ", "epsilon": "ε",
}  # fmt: skip
# in this order; a minus sign, unlike a hyphen, is not parted from what follows it
_SET: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<![^\s(^[|])-(?=\w)"), "−"),
    (re.compile(rf"(?<![\w.-])({'|'.join(_GREEK)})(?![\w-]|\.\w)"), lambda m: _GREEK[m[0]]),
    (re.compile(r"\bsqrt(?=\()"), "√"),
    (re.compile(r"(?<=[\w)|])\*\*(?=[\w(-])"), "^"),
    (re.compile(r"(?<=[\w)|])\*(?=[\w(|√])"), "·"),
    (re.compile(r"\^(?:\(([^()]*)\)|(−?\w+(?:\.\d+)?))"), lambda m: f"<sup>{m[1] or m[2]}</sup>"),
)


def page(document: doc.Document) -> str:
    """A self-contained page; it needs no network, reads on a phone, in the dark and on paper."""
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    title = re.sub("<sup>(.*?)</sup>", r"^(\1)", _prose(document.title))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n"
        f"<script>{_UNFOLD}</script></head>\n<body>\n"
        f"<header><h1>{_prose(document.title)}</h1>\n{_blocks(document.answer)}</header>\n"
        f"{_blocks(document.sections, 2)}\n{_blocks(document.closing)}\n</body></html>\n"
    )


def fragment(document: doc.Document) -> str:
    heading = f"<p><b>{_prose(document.title)}</b></p>\n" if document.title else ""
    body = (*document.answer, *document.sections, *document.closing)
    return f"<div>{heading}{_blocks(body, 4)}</div>"


def _blocks(body: tuple[doc.Block | doc.Section, ...], level: int = 0) -> str:
    return "\n".join(
        _section(item, level) if isinstance(item, doc.Section) else _block(item)
        for item in filter(doc.says, body)
    )


def _section(section: doc.Section, level: int) -> str:
    title = _prose(section.title)
    body = _blocks(section.body, min(level + 1, 6))
    if not section.folded:
        return f"<section><h{level}>{title}</h{level}>\n{body}</section>"
    note = f' <span class="soft">{escape(section.note)}</span>' if section.note else ""
    kind = ' class="long"' if section.long else ""
    return f"<details{kind}><summary>{title}{note}</summary>\n{body}</details>"


def _block(block: doc.Block) -> str:
    match block:
        case doc.Paragraph():
            kind = ' class="aside"' if block.aside else ""
            return f"<p{kind}>{_words(block.words)}</p>"
        case doc.Terms():
            rows = (f"<dt>{escape(k)}</dt><dd>{_words(words)}</dd>" for k, words in block.rows)
            return f"<dl>{''.join(rows)}</dl>"
        case doc.Table():
            return _table(block)
        case doc.RuleBox():
            return _rule(block)
        case doc.Step():
            return _step(block)
        case doc.Listing():
            return f"<pre><code>{escape(block.text)}</code></pre>"
        case doc.Files():
            return _files(block)
        case doc.Figure() | doc.Panels():
            caption = f"<figcaption>{_prose(block.caption)}</figcaption>" if block.caption else ""
            plot = panels(block) if isinstance(block, doc.Panels) else drawn(block)
            return f"<figure>{plot.svg}{caption}</figure>"
        case doc.Layer():
            caption = f"<figcaption>{_prose(block.caption)}</figcaption>"
            return f"<figure>{caption}{layer.svg(block).svg}</figure>"


# The data goes along inside of the page: one file that needs no network and no folder beside it.
def _files(files: doc.Files) -> str:
    """Links that save, without a network; on paper, where a link would carry the data, names."""
    links = (
        f'<a download="{escape(name)}" href="data:application/json;base64,'
        f'{b64encode(text.encode()).decode()}">{escape(name)}</a>'
        for name, text in files.contents
    )
    return f'<p class="files">{" ".join(links)}</p><p class="aside paper">{escape(files.named)}</p>'


def _rule(rule: doc.RuleBox) -> str:
    rows = []
    for owner, knobs in rule.rows:
        shown = " ".join(math(knob_mathml(knob)) for knob in knobs)
        rows.append(f"<dt>{escape(owner)}</dt><dd>{shown}</dd>")
    depth = f'<p class="aside">Values at {escape(rule.depth)}.</p>' if rule.depth else ""
    return f'<dl class="rule">{"".join(rows)}</dl>{depth}'


def _step(step: doc.Step) -> str:
    # the style knows the widest piece's width and draws all smaller where it cannot fit
    sides = equation_mathml(step)
    wide = 1.12 * max(map(width, sides))
    return (
        '<div class="step"><div class="equation" style="display:flex;align-items:center;gap:1em">'
        f'<div class="formula" style="--wide:{wide:.1f}">{"".join(map(math, sides))}</div>'
        f'<div class="number">({step.number})</div></div>'
        f'<p class="aside">{_words(step.words)}</p></div>'
    )


def _table(table: doc.Table) -> str:
    """On a narrow page the rows of sentences or of many columns are stacked, others scroll."""
    kinds = dict.fromkeys(table.numbers, "number") | dict.fromkeys(table.sentences, "words")

    def attribute(column: int) -> str:
        return f' class="{kinds[column]}"' if column in kinds else ""

    def cell(column: int, words: doc.Words) -> str:
        # a row that becomes a block needs the head of a number beside it
        number = column in table.numbers
        label = f' data-label="{escape(table.head[column])}"' if number else ""
        return f"<td{attribute(column)}{label}>{_words(words)}</td>"

    heads = "".join(f"<th{attribute(i)}>{escape(h)}</th>" for i, h in enumerate(table.head))
    rows = (f"<tr>{''.join(cell(i, c) for i, c in enumerate(row))}</tr>\n" for row in table.rows)
    kind = ' class="stack"' if table.sentences or len(table.head) > 4 else ""
    return f'<div class="wide"><table{kind}><tr>{heads}</tr>\n{"".join(rows)}</table></div>'


def _words(words: doc.Words) -> str:
    return doc.spelled(
        words,
        _prose,
        lambda formula: math(inline_mathml(formula)),
        lambda code: f"<code>{_code(code)}</code>",
        '<span class="verdict {0}">{0}</span>'.format,
    )


def _code(text: str) -> str:
    """What a narrow page breaks after ``*``, ``/`` and spaces alone."""
    pieces = re.findall(r"[^\s*/,]*(?:[*/,]+|\s+|$)", text)
    return "<wbr>".join(f'<span class="whole">{escape(piece)}</span>' for piece in pieces if piece)


def _prose(text: str) -> str:
    """A sentence; what is typed in it as a formula is set: −η·N, and an exponent raised."""
    shown = escape(text)
    for pattern, sign in _SET:
        shown = pattern.sub(sign, shown)
    return shown
