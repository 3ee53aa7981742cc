"""A document as HTML, a whole page or a fragment, with its formulas as MathML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from itertools import count
from pathlib import Path

from latex2mathml.converter import convert

from deepnet_theory.report import document as doc
from deepnet_theory.report.figure import drawn
from deepnet_theory.report.notation import equation_latex, formula_latex

RAISED = re.compile(r"\^(?:\(([^()]*)\)|(−?\w+(?:\.\d+)?))")


def page(document: doc.Document) -> str:
    """A self-contained page; it needs no network, reads on a phone, in the dark and on paper."""
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    title = re.sub("<sup>(.*?)</sup>", r"^(\1)", _prose(document.title))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>\n{style}</style></head>'
        f"\n<body><main>\n<h1>{_prose(document.title)}</h1>\n{_blocks(document, 2)}"
        "\n</main></body></html>\n"
    )


def fragment(document: doc.Document) -> str:
    """The document for a notebook or a page of a site."""
    heading = f"<p><b>{_prose(document.title)}</b></p>\n" if document.title else ""
    return f"<div>{heading}{_blocks(document, 4)}</div>"


def _blocks(document: doc.Document, level: int) -> str:
    return "\n".join(_block(block, level) for block in document.body if block)


def _block(block: doc.Block, level: int) -> str:
    match block:
        case doc.Document():
            title, body = _prose(block.title), _blocks(block, min(level + 1, 6))
            if block.folded:
                return f"<details><summary>{title}</summary>\n{body}</details>"
            return f"<section><h{level}>{title}</h{level}>\n{body}</section>"
        case doc.TableBlock():
            return _table(block)
        case doc.Proposition():
            equation = math(equation_latex(block.step))
            return (
                f'<div class="step"><div class="wide equation" tabindex="0">{equation}'
                f'<span class="soft">({block.number})</span></div><p class="soft">'
                f"{_words((f'{block.step.because} ', block.verdict, block.fails))}</p></div>"
            )
        case doc.Listing():
            return f"<pre><code>{escape(block.text)}</code></pre>"
        case doc.Figure():
            caption = f"<figcaption>{_prose(block.caption)}</figcaption>" if block.caption else ""
            panels = "\n".join(drawn(block, i).svg for i in range(len(block.panels)))
            return f'<figure><div class="panels">{panels}</div>{caption}</figure>'
        case _:
            return f"<p>{_words(block)}</p>"


def _table(table: doc.TableBlock) -> str:
    kinds = dict.fromkeys(table.numbers, "number") | dict.fromkeys(table.sentences, "words")

    def row(tag: str, cells: Iterable[str]) -> str:
        classes = (f' class="{kinds[i]}"' if i in kinds else "" for i in count())
        shown = (f"<{tag}{c}>{cell}</{tag}>" for c, cell in zip(classes, cells, strict=False))
        return f"<tr>{''.join(shown)}</tr>\n"

    rows = (row("td", map(_words, words)) for words in table.rows)
    shown = "".join((row("th", map(escape, table.head)) if table.head else "", *rows))
    # a reader without a mouse scrolls with the arrow keys what has the focus
    return f'<div class="wide" tabindex="0"><table>{shown}</table></div>'


def _words(words: doc.Words) -> str:
    verdict = '<span class="verdict {0}">{0}</span>'
    return doc.joined(words, lambda formula: math(formula_latex(formula)), verdict, _prose)


def _prose(text: str) -> str:
    """A sentence; what is typed in it as a formula is set: −η·N, and an exponent raised."""
    return RAISED.sub(lambda m: f"<sup>{m[1] or m[2]}</sup>", doc.lettered(escape(text)))


@cache
def math(latex: str) -> str:
    """MathML that a browser shows, at the size of a display."""
    return str(convert(latex)).replace("<math ", '<math displaystyle="true" ', 1)
