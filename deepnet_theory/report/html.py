"""A document as HTML, a whole page or a fragment, with its formulas as presentation MathML."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from xml.dom.minidom import Element

import sympy as sp
from sympy.printing.mathml import MathMLPresentationPrinter
from sympy.printing.precedence import PRECEDENCE

from deepnet_theory.report import document as doc
from deepnet_theory.report.figure import drawn
from deepnet_theory.report.notation import FUNCTION, SIGN, as_written

# Printing shows what is folded; browsers that know ::details-content do so from the style alone.
_UNFOLD = (
    "addEventListener('beforeprint',()=>document.querySelectorAll('details:not(.long)')"
    ".forEach(d=>d.open=true))"
)

# in this order; a minus sign, unlike a hyphen, is not parted from what follows it
_SET: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<![^\s(^[|])-(?=\w)"), "−"),
    (re.compile(rf"(?<![\w.-])({'|'.join(doc.GREEK)})(?![\w-]|\.\w)"), lambda m: doc.GREEK[m[0]]),
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
        case doc.Figure():
            caption = f"<figcaption>{_prose(block.caption)}</figcaption>" if block.caption else ""
            return f"<figure>{drawn(block).svg}{caption}</figure>"


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
    function = FUNCTION.get(step.relation)
    right = _printed(step.rhs)
    if function:
        right = f"<mi>{function}</mi><mrow><mo>(</mo>{right}<mo>)</mo></mrow>"
    sides = [_printed(side) for side in (step.left, step.lhs) if side is not None]
    equation = "<mo>=</mo>".join(sides) + f"<mo>{SIGN.get(step.relation, '=')}</mo>{right}"
    return (
        f'<div class="step"><div class="equation"><div class="formula">{math(equation)}</div>'
        f'<span class="number">({step.number})</span></div>'
        f'<p class="aside">{_words(step.words)}</p></div>'
    )


def _table(table: doc.Table) -> str:
    kinds = dict.fromkeys(table.numbers, "number") | dict.fromkeys(table.sentences, "words")

    def row(tag: str, cells: Iterable[str]) -> str:
        classes = (f' class="{kinds[i]}"' if i in kinds else "" for i in range(len(table.head)))
        shown = (f"<{tag}{c}>{cell}</{tag}>" for c, cell in zip(classes, cells, strict=True))
        return f"<tr>{''.join(shown)}</tr>\n"

    rows = (row("td", map(_words, cells)) for cells in table.rows)
    head = row("th", map(escape, table.head))
    return f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _words(words: doc.Words) -> str:
    return doc.spelled(
        words,
        _prose,
        lambda formula: math(inline_mathml(formula)),
        lambda code: f"<code>{escape(code)}</code>",
        '<span class="verdict {0}">{0}</span>'.format,
    )


def _prose(text: str) -> str:
    """A sentence; what is typed in it as a formula is set: −η·N, and an exponent raised."""
    shown = escape(text)
    for pattern, sign in _SET:
        shown = pattern.sub(sign, shown)
    return shown


def math(content: str) -> str:
    """MathML content as an element that a browser shows, at the size of a display."""
    return f'<math displaystyle="true"><mrow>{content}</mrow></math>'


def inline_mathml(formula: doc.Formula) -> str:
    """The content of a formula among words."""
    shown = formula.expression
    if isinstance(shown, str):
        return _printed(as_written(shown), root_notation=False)
    return _printed(shown)


def knob_mathml(knob: doc.Knob) -> str:
    """The content of ``symbol = formula = value``."""
    sign = "∝" if knob.symbol == "eta" else "="
    letter = doc.GREEK[knob.symbol]
    value = f"<mo>=</mo><mn>{knob.value}</mn>" if knob.value else ""
    return f"<mi>{letter}</mi><mo>{sign}</mo>{inline_mathml(knob.formula)}{value}"


# what SymPy prints, and what is set in its place
_MATH_SET = (
    (re.compile(r"<mo>-</mo>"), "<mo>−</mo>"),
    (re.compile(r"<mn>-([\d.]+)</mn>"), r"<mrow><mo>−</mo><mn>\1</mn></mrow>"),
    (re.compile(r"<mo>/</mo>"), '<mo lspace="0" rspace="0">/</mo>'),
    (re.compile(r"<mi>phi(?=\(?</mi>)"), "<mi>φ"),
    # a bracket inside a name, as in "norm(", would not grow with what it encloses
    (re.compile(r"<mi>(\w+)([(\[])</mi>"), r"<mi>\1</mi><mo>\2</mo>"),
    (re.compile(r"<mi>\)([(\[])</mi>"), r"<mo>)</mo><mo>\1</mo>"),
)


def _printed(expression: sp.Expr, **settings: bool) -> str:
    printed = str(_Presentation({"fold_frac_powers": True, **settings}).doprint(expression))
    for pattern, shown in _MATH_SET:
        printed = pattern.sub(shown, printed)
    return printed


class _Presentation(MathMLPresentationPrinter):  # type: ignore[misc]
    """SymPy's printer, with a fraction in an exponent on one line, with products and Kronecker's
    delta, and with parentheses around a differentiated sum.
    """

    def _print_Pow(self, expression: sp.Pow) -> Element:
        exponent = expression.exp
        if self._settings["root_notation"] or not exponent.is_Rational or exponent.is_Integer:
            powered: Element = super()._print_Pow(expression)
            return powered
        base = self.parenthesize(expression.base, PRECEDENCE["Pow"])
        return self._element("msup", base, self._get_printed_Rational(exponent, folded=True))

    def _get_printed_Rational(self, value: sp.Rational, folded: bool = False) -> Element:
        if not folded:
            printed: Element = super()._get_printed_Rational(value)
            return printed
        sign = [self._element("mo", "−")] if value.is_negative else []
        above, below = self._print(abs(value.p)), self._print(value.q)
        return self._element("mrow", *sign, above, self._element("mo", "/"), below)

    def _print_Product(self, expression: sp.Product) -> Element:
        ((index, first, last),) = expression.limits
        below = (self._print(index), self._element("mo", "="), self._print(first))
        ends = (self._element("mrow", *below), self._print(last))
        sign = self._element("munderover", self._element("mo", "∏"), *ends)
        factor = self.parenthesize(expression.function, PRECEDENCE["Mul"])
        return self._element("mrow", sign, factor)

    def _print_KroneckerDelta(self, expression: sp.KroneckerDelta) -> Element:
        indices = self._element("mrow", *map(self._print, expression.args))
        return self._element("msub", self._element("mi", "δ"), indices)

    def _print_Derivative(self, expression: sp.Derivative) -> Element:
        # SymPy leaves out the parentheses around a sum, which it prints last
        row: Element = super()._print_Derivative(expression)
        body = row.lastChild
        if expression.expr.is_Add and isinstance(body, Element):
            brackets = self._element("mo", "("), self._element("mo", ")")
            row.appendChild(self._element("mrow", brackets[0], body, brackets[1]))
        return row

    def _element(self, tag: str, *content: Element | str) -> Element:
        element: Element = self.dom.createElement(tag)
        for item in content:
            text = self.dom.createTextNode(item) if isinstance(item, str) else item
            element.appendChild(text)
        return element
