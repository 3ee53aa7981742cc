"""What can be chosen: rows for every discovered folder."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from deepnet_theory.report.text import page_columns
from deepnet_theory.spec.assumption import assumptions
from deepnet_theory.spec.closure import Closure, closures
from deepnet_theory.spec.norm import norms
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.parametrisation import FULL, Parametrisation, parametrisations
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.scheme import Scheme, recorded, schemes
from deepnet_theory.spec.sublayer import sublayers

Row = dict[str, Any]

# The methods are routes through the engine, not values of a folder.
METHODS = {
    "probe": "scalar probes of each matrix's gain, orders of magnitude (Su)",
    "lemma": "bounds on the model update, telescoped over the sublayers (DeepNet, layer cake)",
    "moments": "second moments of Gaussian matrices by index sums (layer cake, section 5)",
}


def _row(value: object, keys: str, **computed: object) -> Row:
    """The attributes of a value that its list shows, in order; some are computed."""
    return {k: computed[k] if k in computed else getattr(value, k) for k in keys.split()}


def _closure(c: Closure) -> Row:
    condition = ", ".join(f"{left} = {right}" for left, right in c.conditions)
    return _row(c, "name condition summary source", condition=condition)


def _scheme(s: Scheme) -> Row:
    measured = [
        f"{name} {one.depth}^{one} ({one.predicted} derived)"
        for name, own in recorded().get(s.name, {}).items()
        for one in own
    ]
    return _row(
        s,
        "name equation alpha gains optimizer summary measured mind source",
        alpha=[f"{p.name}: {p.alpha}" for p in s.parts],
        gains=[f"{p.name} {m}: {g}" for p in s.parts for m, g in p.gains.items()],
        measured=measured,
    )


def _schemes() -> Iterable[Row]:
    """Schemes of the depth and of the width; what stands in both has the facts of both."""
    deep, wide = schemes(), parametrisations()
    for name in sorted({*deep, *wide}):
        row: Row = {"name": name, "dimension": "depth"}
        if name in wide:
            row = {"name": name, "dimension": "both" if name in deep else "width"}
            row |= _in_width(wide[name])
        if name in deep:
            row |= _scheme(deep[name])
        if row["dimension"] == "both":
            row["source"] = "; ".join(dict.fromkeys((deep[name].source, wide[name].source)))
        yield row


def _in_width(p: Parametrisation) -> Row:
    rates = [
        f"{c.optimizer}{'' if c.alignment == FULL else ', no alignment'}: "
        + ", ".join(f"{of} {rate}" for of, rate in c.rate.items())
        for c in p.columns
    ]
    return {
        "summary": p.summary,
        "init": [f"{of}: {text}" for of, text in p.init.items()],
        "multiplier": [f"{of}: {text}" for of, text in p.multiplier.items()],
        "rates": rates,
        "mind": p.mind,
        "source": p.source,
    }


def _claims() -> list[Row]:
    from deepnet_theory.claims.folder import claims

    keys = "name statement recorded source"
    return [_row(c, keys, recorded=c.standing) for c in claims().values()]


def _all(values: Callable[[], dict[str, Any]], keys: str) -> Callable[[], Iterable[Row]]:
    return lambda: (_row(value, keys) for value in values().values())


_LISTS: dict[str, Callable[[], Iterable[Row]]] = {
    "optimizers": _all(optimizers, "name update summary mind source"),
    "placements": _all(placements, "name equation summary source"),
    "norms": _all(norms, "name summary source"),
    "sublayers": lambda: (
        _row(s, "name branch scaled summary source", scaled=[m.name for m in s.scaled])
        for s in sublayers().values()
    ),
    "closures": lambda: map(_closure, closures().values()),
    "methods": lambda: ({"name": name, "summary": told} for name, told in METHODS.items()),
    "assumptions": lambda: (
        _row(a, "name statement measurement source", measurement=a.measurement or "")
        for a in assumptions().values()
    ),
    "claims": _claims,
    "schemes": _schemes,
    "kinds": lambda: (
        {"name": kind, "names": [row["name"] for row in rows()]}
        for kind, rows in _LISTS.items()
        if kind != "kinds"
    ),
}
KINDS = tuple(_LISTS)


def listing(what: str) -> list[Row]:
    return list(_LISTS[what]())


def listing_text(rows: list[Row]) -> str:
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
