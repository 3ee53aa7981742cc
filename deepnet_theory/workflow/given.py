"""What the verbs are given, as values: a selection, a derivation, settings and where to work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deepnet_theory.sizes.answer import Answer
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.scheme import Scheme, scheme, schemes
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.settings import record

if TYPE_CHECKING:
    from deepnet_theory.numeric.settings import Settings
    from deepnet_theory.processes import Work
    from deepnet_theory.spec.settings import Measure
    from deepnet_theory.symbolic.derivation import Derivation

    class Given(Measure, Work, total=False):
        """What to measure on, who does the work and who watches it."""


def selection_of(
    selection: Selection | Derivation | str | None, select: Mapping[str, object]
) -> Selection:
    """The selection that is meant: its own, a derivation's, a text's or that of its fields."""
    match selection:
        case None:
            return record(Selection, "a selection", select)
        case str():
            # an update contains the learning rate, and no optimizer is called so
            field = "update" if re.search(r"\beta\b", selection) else "optimizer"
            if field in select:
                raise InputError(f"{field} is given twice: {selection!r} and {select[field]!r}")
            return record(Selection, "a selection", {**select, field: selection})
        case Selection() | object(selection=Selection()):  # a derivation has its own
            if select:
                raise InputError(f"give a Selection or its fields, not both: {', '.join(select)}")
            return selection if isinstance(selection, Selection) else selection.selection
    raise InputError(
        f"{selection!r:.60} is no selection: give the name of an optimizer, an update in eta, g "
        "and theta, or a Selection"
    )


def scheme_of_depth(name: str) -> Scheme:
    """The published scheme of that name.

    Raises :class:`Refusal` for one that sets sizes in the width alone.
    """
    from deepnet_theory.spec.parametrisation import parametrisations

    if str(name).lower() in set(parametrisations()) - set(schemes()):
        raise Refusal(
            f"{name!r} says how sizes scale with the width, not which sizes one model has: derive "
            "--across width judges it, and measure --widths shows a model's own"
        )
    return scheme(name)


def derived(given: Derivation | Selection | str | None) -> Derivation:
    """A derivation as it is; a selection, or a text that stands for one, is derived."""
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.symbolic.derive import derive

    return given if isinstance(given, Derivation) else derive(selection_of(given, {}))


def answered(given: Answer | Selection | str | None) -> Answer:
    """An answer, which a derivation is too, as it is; a selection is answered without its proof."""
    return given if isinstance(given, Answer) else Answer(selection_of(given, {}))


def settings_and_work(given: Given) -> tuple[Settings, Work]:
    """The laboratory's settings, and where the work is done.

    Raises :class:`InputError` for a name that neither of them knows.
    """
    from deepnet_theory.numeric.settings import Settings
    from deepnet_theory.processes import split

    measure, work = split(given)
    return record(Settings, "a measurement", measure), work


def staged(given: Given, start: float, length: float, prefix: str = "") -> Given:
    """The same, with the progress of one stage told as a share of the whole."""
    progress = given.get("progress")
    if progress is None:
        return given

    def in_stage(done: float, total: float, what: str) -> None:
        progress(start + length * done / total, 1.0, prefix + what)

    return {**given, "progress": in_stage}
