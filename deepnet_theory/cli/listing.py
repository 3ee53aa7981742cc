"""What can be chosen: rows for every discovered folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deepnet_theory.cli.claims import runner
from deepnet_theory.definitions.assumption import ASSUMPTIONS
from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.outcome import unknown
from deepnet_theory.definitions.placement import PLACEMENTS
from deepnet_theory.definitions.rule import CLOSURES
from deepnet_theory.definitions.scheme import SCHEMES
from deepnet_theory.definitions.sublayer import NORMS, SUBLAYERS
from deepnet_theory.report.text import INDENT, folded

Row = dict[str, Any]

# The methods are routes through the engine, not values of a folder.
METHODS = {
    "probe": "scalar probes of each matrix's gain, orders of magnitude (Su)",
    "lemma": "bounds on the model update, telescoped over the sublayers (DeepNet, layer cake)",
}
# What a list shows of the values of a folder, in order.
FOLDERS: dict[str, tuple[Mapping[str, Any], str]] = {
    "optimizers": (OPTIMIZERS, "name update summary mind source"),
    "placements": (PLACEMENTS, "name equation summary source"),
    "norms": (NORMS, "name summary source"),
    "sublayers": (SUBLAYERS, "name branch scaled summary source"),
    "closures": (CLOSURES, "name condition summary source"),
    "assumptions": (ASSUMPTIONS, "name statement measurement source"),
    "claims": ({}, "name statement recorded source"),  # loaded when they are listed
    "schemes": (SCHEMES, "name equation optimizer summary mind source"),
}
COMPUTED: dict[str, Callable[[Any], Any]] = {  # in place of an attribute of that name
    "scaled": lambda s: [m.name for m in s.scaled],
    "condition": lambda c: ", ".join(f"{left} = {right}" for left, right in c.conditions),
    "recorded": lambda c: c.standing,
}
KINDS = (*FOLDERS, "methods", "kinds")


def listing(what: str) -> list[Row]:
    """The rows of a kind of values, or the kinds themselves with the names of each."""
    if what == "methods":
        return [{"name": name, "summary": words} for name, words in METHODS.items()]
    if what == "kinds":
        named = {kind: [row["name"] for row in listing(kind)] for kind in KINDS[:-1]}
        return [{"name": kind, "names": names} for kind, names in named.items()]
    if what not in FOLDERS:
        raise unknown("list", what, KINDS)
    values, keys = FOLDERS[what]
    return [
        {k: COMPUTED[k](one) if k in COMPUTED else getattr(one, k) for k in keys.split()}
        for one in (runner().claims() if what == "claims" else values).values()
    ]


def text(rows: Iterable[Row]) -> str:
    """A name a line, what else is known indented under it, on the columns there are."""
    lines = []
    for row in rows:
        lines.append(row["name"])
        for key, value in row.items():
            shown = ", ".join(value) if isinstance(value, list) else value
            if key != "name" and shown:
                label = "" if key in ("summary", "statement", "names") else f"{key}: "
                lines += folded(f"{label}{shown}", INDENT, first="    ")
    return "\n".join(lines)
