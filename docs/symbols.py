"""The page of symbols: what the three derivations write, and the steps that bring it in."""

from __future__ import annotations

from collections.abc import Iterator

import deepnet_theory as dt
from deepnet_theory.report.markdown import markdown
from deepnet_theory.report.rule import section

PLACE = "symbols.md"
ROUTES = {"probe": "The probe (Su)", "lemma": "The lemma route (DeepNet)",
          "moments": "The moment route (layer cake)"}  # fmt: skip


def page() -> str:
    """The page; its tables are what ``derive --section symbols`` prints."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Symbols of the three derivations\n"
    yield "*From* is the number of the step where a symbol first stands, as `--steps` counts."
    for method, title in ROUTES.items():
        derivation = dt.derive("sgd", method=method)
        yield f"\n## {title}\n\n`deepnet-theory derive --optimizer sgd --method {method} --steps`\n"
        yield markdown(section(derivation, "symbols")).partition("## Symbols\n\n")[2].rstrip()
