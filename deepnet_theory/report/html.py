"""A document as HTML, a page of its own or a fragment, with its formulas as presentation MathML."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path
from xml.dom.minidom import Element
from xml.etree import ElementTree

import sympy as sp
from sympy.printing.mathml import MathMLPresentationPrinter
from sympy.printing.precedence import PRECEDENCE

from deepnet_theory.report import document as doc
from deepnet_theory.report import layer
from deepnet_theory.report.notation import FUNCTION, SIGN, as_written
from deepnet_theory.report.svg import drawn, panels

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


# formulas, in pieces: a narrow page may break the line between them

LINE = 30  # em: a sum wider than this is broken between its terms


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
    letter = {"alpha": "α", "beta": "β", "kappa": "κ", "eta": "η"}[knob.symbol]
    value = f"<mo>=</mo><mn>{knob.value}</mn>" if knob.value else ""
    return f"<mi>{letter}</mi><mo>{sign}</mo>{inline_mathml(knob.formula)}{value}"


def equation_mathml(step: doc.Step) -> list[str]:
    """The content of ``lhs relation rhs`` in pieces."""
    left, right = _broken(step.lhs), _broken(step.rhs)
    function = FUNCTION.get(step.relation)
    if function:
        inner = f"<mo>(</mo>{_printed(step.rhs)}<mo>)</mo>"
        right = [f"<mi>{function}</mi><mrow>{inner}</mrow>"]
    right[0] = f"{_infix(SIGN.get(step.relation, '='))}{right[0]}"
    return [*left, *right]


def _infix(sign: str) -> str:
    """A sign at the beginning of a piece: space after it, before it is that of the pieces."""
    return f'<mo form="infix" lspace="0">{sign}</mo>'


def _broken(expression: sp.Expr) -> list[str]:
    """A wide sum's terms, each with the sign before it; anything else whole."""
    whole = _printed(expression)
    if not expression.is_Add or width(whole) <= LINE:
        return [whole]
    pieces: list[str] = []
    for term in _Presentation({})._as_ordered_terms(expression):
        signed = term.could_extract_minus_sign() or not pieces
        pieces.append(_printed(term) if signed else f"{_infix('+')}{_printed(term)}")
    return pieces


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


# about how wide a formula will be drawn, so that a narrow page can draw it smaller
_SPACED = set("=+−∼≤⊙")  # relations and signs stand between spaces
_LARGE = set("∑∏∫")
_NARROW = set(",.'∣|′")
_INVISIBLE = "\u2061\u2062\u2063\u2064"
_SCRIPT = 0.72  # the size of indices and exponents


def width(mathml: str) -> float:
    """The width of presentation MathML in em, by counting characters.

    Rather a little too wide than too narrow: what is drawn smaller still fits.
    """
    named = re.sub(r"&(?!amp;|lt;|gt;)\w+;", lambda entity: unescape(entity[0]), mathml)
    return _width(ElementTree.fromstring(f"<mrow>{named}</mrow>"))


def _width(element: ElementTree.Element) -> float:
    children = [_width(child) for child in element]
    match element.tag:
        case "mfrac":
            return max(children) + 0.4
        case "msup" | "msub":
            return children[0] + _SCRIPT * sum(children[1:])
        case "msubsup":
            return children[0] + _SCRIPT * max(children[1:])
        case "munderover" | "munder" | "mover":
            return max(children[0], _SCRIPT * max(children[1:])) + 0.2
        case "msqrt" | "mroot":
            return sum(children) + 1.0
        case "mfenced":
            return sum(children) + 0.9
    return sum(children) if children else _of_text(element.text or "")


def _of_text(text: str) -> float:
    shown = [c for c in text if c not in _INVISIBLE]
    if len(shown) == 1:
        (character,) = shown
        if character in _SPACED or character in _LARGE:
            return 1.4
        return 0.45 if character in _NARROW else 0.7
    return 0.55 * len(shown) + (0.2 if shown else 0.0)
