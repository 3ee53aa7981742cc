"""What can be chosen: rows for every discovered folder."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from deepnet_theory.definitions.assumption import assumptions
from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.placement import placements
from deepnet_theory.definitions.rule import closures
from deepnet_theory.definitions.scheme import schemes
from deepnet_theory.definitions.sublayer import norms, sublayers
from deepnet_theory.report.text import page_columns

Row = dict[str, Any]

# The methods are routes through the engine, not values of a folder.
METHODS = {
    "probe": "scalar probes of each matrix's gain, orders of magnitude (Su)",
    "lemma": "bounds on the model update, telescoped over the sublayers (DeepNet, layer cake)",
}


def _claims() -> dict[str, Any]:
    from deepnet_theory.cli.claims import runner

    known: dict[str, Any] = runner().claims()
    return known


# what a list shows of its values, in order: attributes, and what stands in place of some
_FOLDERS: dict[str, tuple[Callable[[], dict[str, Any]], str, dict[str, Callable[[Any], Any]]]] = {
    "optimizers": (optimizers, "name update summary mind source", {}),
    "placements": (placements, "name equation summary source", {}),
    "norms": (norms, "name summary source", {}),
    "sublayers": (
        sublayers,
        "name branch scaled summary source",
        {"scaled": lambda s: [m.name for m in s.scaled]},
    ),
    "closures": (
        closures,
        "name condition summary source",
        {"condition": lambda c: ", ".join(f"{left} = {right}" for left, right in c.conditions)},
    ),
    "assumptions": (
        assumptions,
        "name statement measurement source",
        {"measurement": lambda a: a.measurement or ""},
    ),
    "claims": (_claims, "name statement recorded source", {"recorded": lambda c: c.standing}),
}
_SCHEME = "name equation alpha gains optimizer summary mind source"
_OF_A_SCHEME: dict[str, Callable[[Any], Any]] = {
    "alpha": lambda s: [f"{p.name}: {p.alpha}" for p in s.parts],
    "gains": lambda s: [f"{p.name} {m}: {g}" for p in s.parts for m, g in p.gains.items()],
}
KINDS = (
    "optimizers", "placements", "norms", "sublayers", "closures", "methods", "assumptions",
    "claims", "schemes", "kinds",
)  # fmt: skip


def _row(value: object, keys: str, computed: dict[str, Callable[[Any], Any]]) -> Row:
    return {k: computed[k](value) if k in computed else getattr(value, k) for k in keys.split()}


def _schemes() -> Iterable[Row]:
    return (_row(one, _SCHEME, _OF_A_SCHEME) for one in schemes().values())


def listing(what: str) -> list[Row]:
    """The rows of a kind of values, or the kinds themselves with the names of each."""
    match what:
        case "methods":
            return [{"name": name, "summary": words} for name, words in METHODS.items()]
        case "schemes":
            return list(_schemes())
        case "kinds":
            kinds = [(kind, listing(kind)) for kind in KINDS if kind != "kinds"]
            return [{"name": kind, "names": [r["name"] for r in rows]} for kind, rows in kinds]
    values, keys, computed = _FOLDERS[what]
    return [_row(value, keys, computed) for value in values().values()]


def text(rows: list[Row]) -> str:
    """A name a line, what else is known indented under it, on the columns there are."""
    lines = []
    for row in rows:
        lines.append(row["name"])
        for key, value in row.items():
            shown = ", ".join(value) if isinstance(value, list) else value
            if key != "name" and shown:
                label = "" if key in ("summary", "statement", "names") else f"{key}: "
                lines += textwrap.wrap(
                    f"{label}{shown}",
                    page_columns(),
                    initial_indent="    ",
                    subsequent_indent="      ",
                    break_on_hyphens=False,
                )
    return "\n".join(lines)
