"""What can be chosen: rows for every discovered folder."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from deepnet_theory.report.printing.columns import page_columns
from deepnet_theory.spec.assumption import assumptions
from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.measured import recorded
from deepnet_theory.spec.norm import norms
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.scheme import schemes
from deepnet_theory.spec.sublayer import sublayers

Row = dict[str, Any]

# The methods are routes through the engine, not values of a folder.
METHODS = {
    "probe": "scalar probes of each matrix's gain, orders of magnitude (Su)",
    "lemma": "bounds on the model update, telescoped over the sublayers (DeepNet, layer cake)",
    "moments": "second moments of Gaussian matrices by index sums (layer cake, section 5)",
}


def _optimizers() -> list[Row]:
    return [
        {
            "name": o.name,
            "update": o.update,
            "summary": o.summary,
            "mind": o.mind,
            "source": o.source,
        }
        for o in optimizers().values()
    ]


def _placements() -> list[Row]:
    return [
        {"name": p.name, "equation": p.equation, "summary": p.summary, "source": p.source}
        for p in placements().values()
    ]


def _norms() -> list[Row]:
    return [{"name": n.name, "summary": n.summary, "source": n.source} for n in norms().values()]


def _sublayers() -> list[Row]:
    return [
        {
            "name": s.name,
            "branch": s.branch,
            "scaled": [m.name for m in s.scaled],
            "summary": s.summary,
            "source": s.source,
        }
        for s in sublayers().values()
    ]


def _closures() -> list[Row]:
    return [
        {
            "name": c.name,
            "condition": ", ".join(f"{left} = {right}" for left, right in c.conditions),
            "summary": c.summary,
            "source": c.source,
        }
        for c in closures().values()
    ]


def _methods() -> list[Row]:
    return [{"name": name, "summary": summary} for name, summary in METHODS.items()]


def _assumptions() -> list[Row]:
    return [
        {
            "name": a.name,
            "statement": a.statement,
            "measurement": a.measurement or "",
            "source": a.source,
        }
        for a in assumptions().values()
    ]


def _schemes() -> list[Row]:
    return [
        {
            "name": s.name,
            "equation": s.equation,
            "alpha": [f"{p.name}: {p.alpha}" for p in s.parts],
            "gains": [f"{p.name} {m}: {g}" for p in s.parts for m, g in p.gains.items()],
            "optimizer": s.optimizer,
            "summary": s.summary,
            "measured": [
                f"{name} {one.depth}^{one} ({one.predicted} derived)"
                for name, own in recorded().get(s.name, {}).items()
                for one in own
            ],
            "mind": s.mind,
            "source": s.source,
        }
        for s in schemes().values()
    ]


def _claims() -> list[Row]:
    from deepnet_theory.claims.folder import claims

    return [
        {"name": c.name, "statement": c.statement, "recorded": c.standing, "source": c.source}
        for c in claims().values()
    ]


def _kinds() -> list[Row]:
    return [
        {"name": kind, "names": [row["name"] for row in rows()]}
        for kind, rows in _LISTS.items()
        if kind != "kinds"
    ]


_LISTS: dict[str, Callable[[], list[Row]]] = {
    "optimizers": _optimizers,
    "placements": _placements,
    "norms": _norms,
    "sublayers": _sublayers,
    "closures": _closures,
    "methods": _methods,
    "assumptions": _assumptions,
    "claims": _claims,
    "schemes": _schemes,
    "kinds": _kinds,
}
KINDS = tuple(_LISTS)


def listing(what: str) -> list[Row]:
    """The rows of one list; each has a ``name``."""
    return _LISTS[what]()


def listing_text(rows: list[Row]) -> str:
    """A name a line, what else is known indented under it, on the columns there are."""
    blocks = []
    for row in rows:
        lines = [row["name"]]
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
        blocks.append("\n".join(lines))
    return "\n".join(blocks)
