"""What a result says, before it is text or HTML: frozen data without a layout."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from deepnet_theory.definitions.outcome import Verdict

if TYPE_CHECKING:
    from sympy import Expr


# With a writer for each result and format the formats drift: a verdict that one shows is missing in
# another. A result is said once, and a printer knows no result.

K = TypeVar("K")


@dataclass(frozen=True)
class Formula:
    """Mathematics among words: a SymPy expression, or a formula in N and M as a rule writes it."""

    expression: Expr | str


@dataclass(frozen=True)
class Code:
    """A command, a setting or an expression to be typed."""

    text: str


Inline = str | Formula | Code | Verdict
Words = Inline | tuple[Inline, ...]


def spelled(
    words: Words,
    prose: Callable[[str], str],
    formula: Callable[[Formula], str],
    code: Callable[[str], str],
    verdict: Callable[[Verdict], str],
) -> str:
    """A line, each of its pieces printed by what prints its kind."""
    line = ""
    for piece in words if isinstance(words, tuple) else (words,):
        match piece:
            case Formula():
                line += formula(piece)
            case Code():
                line += code(piece.text)
            case Verdict():
                line += verdict(piece)
            case _:
                line += prose(piece)
    return line


def gathered(pairs: Iterable[tuple[K, str]]) -> dict[K, list[str]]:
    """The names of everything that has the same key, each once."""
    groups: dict[K, dict[str, None]] = {}
    for key, name in pairs:
        groups.setdefault(key, {})[name] = None
    return {key: list(names) for key, names in groups.items()}


@dataclass(frozen=True)
class Paragraph:
    """A sentence or several; ``aside`` where it is less than what stands around it."""

    words: Words
    aside: bool = False


def paragraphs(sentences: Iterable[Words], aside: bool = False) -> tuple[Paragraph, ...]:
    return tuple(Paragraph(words, aside) for words in sentences)


@dataclass(frozen=True)
class Terms:
    """Labels, and what each of them means."""

    rows: tuple[tuple[str, Words], ...]


@dataclass(frozen=True)
class Table:
    """Cells under heads; ``numbers`` and ``sentences`` are the columns that hold such."""

    head: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    numbers: tuple[int, ...] = ()
    sentences: tuple[int, ...] = ()


def table(columns: str, rows: Iterable[tuple[Words, ...]]) -> Table:
    """A table of columns such as ``depth | >mean | …finding``: > before numbers, … before words."""
    head = [name.strip() for name in columns.split("|")]
    numbers, sentences = (
        tuple(i for i, name in enumerate(head) if name.startswith(sign)) for sign in ">…"
    )
    return Table(tuple(name.lstrip(">…") for name in head), tuple(rows), numbers, sentences)


@dataclass(frozen=True)
class Knob:
    """``symbol = formula``, with its value where a depth is given; of eta a factor."""

    symbol: str
    formula: Formula
    value: str = ""  # not where the formula is a number already


@dataclass(frozen=True)
class RuleBox:
    """What a rule sets the knobs of each owner to, with values at ``depth``."""

    rows: tuple[tuple[str, tuple[Knob, ...]], ...]
    depth: str = ""


@dataclass(frozen=True)
class Step:
    """A numbered formula ``left = lhs relation rhs``, why it holds, and the verdict on it."""

    number: int
    lhs: Expr
    relation: str  # EQUAL, ASYMPTOTIC, AT_MOST, ORDER or BOUND
    rhs: Expr
    because: Words
    verdict: tuple[Inline, ...] = ()
    left: Expr | None = None  # what the left side is called

    @property
    def words(self) -> tuple[Inline, ...]:
        reason = self.because if isinstance(self.because, tuple) else (self.because,)
        return (*reason, " " * bool(self.verdict), *self.verdict)


@dataclass(frozen=True)
class Listing:
    """Lines of a program or of data, kept as they are."""

    text: str


@dataclass(frozen=True)
class Files:
    """Data to save, by file name: a page offers them, text names them."""

    contents: tuple[tuple[str, str], ...]

    @property
    def named(self) -> str:
        """The files in words, where a format can hold none."""
        names = ", ".join(f"{name} ({len(text.encode()):,} bytes)" for name, text in self.contents)
        return f"Files in the HTML page: {names}."


class Mark(NamedTuple):
    """A point and the ends of its interval; ``of_x`` where they are ends of x."""

    x: float
    y: float
    low: float
    high: float
    of_x: bool = False


@dataclass(frozen=True)
class Series:
    """All that has one label in a figure: marks, a line through points, a shaded band.

    ``colour`` 0 is the rule's own, 1 to 3 tell rivals apart; ``shade``, from 0 to 1, orders curves.
    """

    label: str
    marks: tuple[Mark, ...] = ()
    line: tuple[tuple[float, float], ...] = ()
    band: tuple[Mark, ...] = ()
    colour: int = 0
    shade: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Figure:
    """Titled panels side by side, x logarithmic; y too, except where it is ``linear``.

    ``level`` is a value of y to lie below, with its label.
    """

    panels: tuple[tuple[str, tuple[Series, ...]], ...]
    x_label: str
    y_label: str
    caption: str = ""
    linear: bool = False
    level: tuple[float, str] | None = None


Block = Paragraph | Terms | Table | RuleBox | Step | Listing | Files | Figure


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; ``folded`` where a screen shows it only when asked.

    Paper shows what is folded too, except ``long`` sections that are not open: their headings.
    """

    title: str
    body: tuple[Block | Section, ...]
    folded: bool = False
    note: str = ""
    long: bool = False


@dataclass(frozen=True)
class Document:
    """A title, the answer, and then the sections that lead to it."""

    title: str
    answer: tuple[Block, ...]
    sections: tuple[Section, ...] = ()
    closing: tuple[Block, ...] = ()


def says(item: Block | Section) -> bool:
    """Whether there is anything to print: a section of nothing has no heading, a table no head."""
    match item:
        case Section():
            return any(map(says, item.body))
        case Table() | Terms():
            return bool(item.rows)
        case Paragraph():
            return bool(item.words)
    return True


@dataclass(frozen=True)
class Heading:
    """The title of a document (level 0) or of a section, where it is not folded."""

    title: str
    level: int


def in_order(document: Document) -> Iterator[Heading | Block]:
    """All that a document says from first to last; a section that says nothing is left out."""
    if document.title:
        yield Heading(document.title, 0)
    yield from _in_order((*document.answer, *document.sections, *document.closing), 1)


def _in_order(body: tuple[Block | Section, ...], level: int) -> Iterator[Heading | Block]:
    for item in filter(says, body):
        if isinstance(item, Section):
            yield Heading(item.title, level)
            yield from _in_order(item.body, level + 1)
        else:
            yield item


# ---- numbers as a person reads them: a true minus sign, none where only zeros are ----

GREEK = {
    "alpha": "α", "beta": "β", "kappa": "κ", "eta": "η", "rho": "ρ", "theta": "θ", "tau": "τ",
    "lambda": "λ", "sigma": "σ", "delta": "δ", "epsilon": "ε", "phi": "φ",
    "gamma": "γ", "mu": "μ", "omega": "ω", "xi": "ξ",
}  # fmt: skip
SIGNED = "+.4f"  # the form of an exponent


def number(value: float | None, form: str = ".4g", missing: str = "-") -> str:
    """A number with a minus sign where it is negative and not rounded to zero."""
    return missing if value is None else _minus(f"{value:{form}}")


def interval(low: float | None, high: float | None, form: str = ".4g") -> str:
    """The ends of an interval; "-" where there is none, as of a single seed."""
    if low is None or high is None or not math.isfinite(high - low):
        return "-"
    return f"{number(low, form)} to {number(high, form)}"


def true_signs(words: str) -> str:
    """A sentence of measurement whose numbers have the same signs: "[-0.0, -1]" is "[0.0, −1]"."""
    return re.sub(r"(?<![^\s(\[^])[-+]\d[\d.]*", lambda match: _minus(match[0]), words)


def _minus(shown: str) -> str:
    if shown[:1] in "+-" and not shown.strip("+-0."):
        return shown[1:]
    return shown.replace("-", "−")


def power(exponent: float | Fraction) -> str:
    """A slope in words: 0 is "flat", 0.5 is "slope +1/2"."""
    if exponent == 0:
        return "flat"
    fraction = Fraction(exponent).limit_denominator(64)
    return f"slope {'+' if exponent > 0 else '−'}{abs(fraction)}"


def depth_words(depth: Mapping[str, int]) -> str:
    """A depth in words: ``N = 8, M = 6``."""
    return ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())
