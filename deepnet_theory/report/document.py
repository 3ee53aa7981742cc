"""What a result says, before it is text, HTML or LaTeX: frozen data without a layout.

Each kind of result is composed once. A printer knows these blocks and no result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.expression import GREEK
from deepnet_theory.definitions.outcome import Verdict

if TYPE_CHECKING:
    from sympy import Expr

    from deepnet_theory.proof.step import Step

K = TypeVar("K")


@dataclass(frozen=True)
class Formula:
    """Mathematics among words: a SymPy expression, or a formula in N and M as a rule writes it."""

    expression: Expr | str


Inline = str | Formula | Verdict
Words = Inline | tuple[Inline, ...]  # as a block, a paragraph
Prose = Callable[[str], str]


def joined(words: Words, formula: Callable[[Expr | str], str], verdict: str, prose: Prose) -> str:
    """A line in a printer's own form: of its formulas, its verdicts, and what is between them."""
    shown = ""
    for piece in words if isinstance(words, tuple) else (words,):
        if isinstance(piece, Formula):
            shown += formula(piece.expression)
        else:
            shown += verdict.format(piece) if isinstance(piece, Verdict) else prose(piece)
    return shown


def gathered(pairs: Iterable[tuple[K, str]]) -> dict[K, list[str]]:
    """The names of everything that has the same key, each once."""
    groups: dict[K, dict[str, None]] = {}
    for key, name in pairs:
        groups.setdefault(key, {})[name] = None
    return {key: list(names) for key, names in groups.items()}


@dataclass(frozen=True)
class TableBlock:
    """Cells under heads, if there are any; ``numbers`` and ``sentences`` are such columns.

    A table of no rows is false: it says nothing, and no printer shows its head.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    numbers: tuple[int, ...] = ()
    sentences: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows)


def table(columns: str, rows: Iterable[tuple[Words, ...]]) -> TableBlock:
    """A table of those columns that any row has a value for.

    Columns are a text such as ``depth | >mean | …finding``: > before numbers, … before words.
    """
    cells = tuple(rows)
    names = [name.strip() for name in columns.split("|")]
    kept = [i for i in range(len(names)) if any(row[i] for row in cells)]
    head = [names[i] for i in kept]
    numbers, sentences = (
        tuple(i for i, name in enumerate(head) if name.startswith(sign)) for sign in ">…"
    )
    shown = tuple(tuple(row[i] for i in kept) for row in cells)
    return TableBlock(tuple(name.lstrip(">…") for name in head), shown, numbers, sentences)


def terms(rows: Iterable[tuple[Words, ...]]) -> TableBlock:
    """Labels, and what each of them means."""
    return TableBlock((), tuple(rows), sentences=(1,))


@dataclass(frozen=True)
class Proposition:
    """A numbered step ``left = lhs relation rhs`` as it is printed, and the verdict on it."""

    number: int
    step: Step
    verdict: Verdict
    fails: str = ""  # what the verdict found wrong


@dataclass(frozen=True)
class Listing:
    """Lines of a program or of data, kept as they are."""

    text: str


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
    A line is ``measured`` where its points are, and dotted there.
    """

    label: str
    marks: tuple[Mark, ...] = ()
    line: tuple[tuple[float, float], ...] = ()
    band: tuple[Mark, ...] = ()
    colour: int = 0
    shade: float = 1.0
    dashed: bool = False
    measured: bool = False


def sloped(
    label: str, marks: tuple[Mark, ...], slope: float | None, start: float = 0, **more: Any
) -> Series:
    """Marks, and a line of a slope on logarithmic axes through the first mark from ``start`` on."""
    first = next((m for m in marks if m.x >= start and 0 < m.y < math.inf), None)
    if first is None or slope is None:
        return Series(label, marks, **more)
    line = tuple((m.x, first.y * (m.x / first.x) ** slope) for m in marks)
    return Series(f"{label} ({power(slope)})", marks, line, **more)


@dataclass(frozen=True)
class Figure:
    """Titled panels side by side, x logarithmic unless it is ``counted``; y too unless ``linear``.

    ``level`` is a value of y to lie below, with its label, and ``top`` the end of y at the latest.
    """

    panels: tuple[tuple[str, tuple[Series, ...]], ...]
    x_label: str
    y_label: str
    caption: str = ""
    linear: bool = False
    level: tuple[float, str] | None = None
    top: float = math.inf
    counted: bool = False


@dataclass(frozen=True, repr=False)
class Document(Displayed):
    """A title and its contents; as a part of another one, a section.

    A page of HTML shows what is ``folded`` only when asked. A document is false where none of its
    blocks says anything: no printer shows its title.
    """

    title: str
    body: tuple[Block, ...]
    folded: bool = False

    def __bool__(self) -> bool:
        return any(self.body)


Block = Words | TableBlock | Proposition | Listing | Figure | Document
Body = tuple[Block, ...]


# ---- numbers as a person reads them ----

# in this order; a minus sign, unlike a hyphen, is not parted from what follows it
_SET: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"(?<![^\s(^[|*])-(?=[\d(]|\w+[*/(^]|({'|'.join(GREEK)})\b)"), "−"),
    (re.compile(r"\bnorm_d(\w)_d(\w+)"), r"‖∂\1/∂\2‖"),
    (re.compile(r"\bnorm_(ΔF\w*|[A-Z]\b)"), r"‖\1‖"),
    (re.compile(rf"(?<![\w.-])({'|'.join(GREEK)})(?![^\W_]|-|\.\w)"), lambda m: GREEK[m[0]]),
    (re.compile(r"\bsqrt(?=\()"), "√"),
    (re.compile(r"(?<=[\w)|‖])\*\*(?=[\w(-])"), "^"),
    (re.compile(r"(?<=[\w)|‖])\*(?=[\w(|√‖])"), "·"),
)


def lettered(text: str) -> str:
    """A sentence with what is typed in it as a formula in signs: −η·N^(1/2)."""
    for pattern, sign in _SET:
        text = pattern.sub(sign, text)
    return text


SIGNED = "+z.4f"  # the form of an exponent


def number(value: float | None, form: str = "z.4g", missing: str = "-") -> str:
    """A number, without a sign where it is rounded to zero; ``missing`` where there is none."""
    return missing if value is None or math.isnan(value) else format(value, form)


def interval(low: float | None, high: float | None, form: str = "z.4g") -> str:
    """The ends of an interval; "-" where there is none, as of a single seed."""
    if low is None or high is None or not math.isfinite(high - low):
        return "-"
    return f"{low:{form}} to {high:{form}}"


def power(exponent: float | Fraction) -> str:
    """A slope in words: 0 is "flat", 0.5 is "slope +1/2"."""
    if exponent == 0:
        return "flat"
    return f"slope {'+' * (exponent > 0)}{Fraction(exponent).limit_denominator(64)}"
