"""About how wide a formula will be drawn, so that a narrow page can draw it smaller."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

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
