"""The page of symbols: the one table of notation."""

from __future__ import annotations

from deepnet_theory.proof.notation import NOTATION
from deepnet_theory.report.notation import lettered

PLACE = "symbols.md"
FIRST = """# Symbols

One letter has one meaning in the whole project; a claim keeps the letters of its source. An index
says whose a size is: α_e of the encoder, r_ffn of the feed-forward, λ_q of query. `derive --section
symbols` lists those of one derivation, with the step that brings each in.
"""


def page() -> str:
    """The page, from the table that derivations take their words from."""

    def escaped(words: str) -> str:
        return words.replace("_", r"\_")

    table = NOTATION.items()
    rows = (f"| {lettered(name)} | `{name}` | {escaped(words)} |" for name, words in table)
    return "\n".join((FIRST, "| symbol | name | stands for |", "|---|---|---|", *rows, ""))
