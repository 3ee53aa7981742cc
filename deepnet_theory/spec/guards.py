"""What no rule has a law for: ``audit`` and ``apply_`` refuse alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator

from deepnet_theory.spec.results.reading import Reading, Sublayer

LEARNT, INSIDE = "learnt", "inside"  # what some published schemes have in their equation


def without_law(found: Reading, but: Container[str] = ()) -> str:
    """Why no rule speaks of these branches; no word where one does.

    ``but`` are the forms, ``LEARNT`` and ``INSIDE``, that a scheme itself has.
    """
    beside = Counter((s.stack, s.sums) for s in found.sublayers)
    for s in found.sublayers:
        for form, why in _forms(s, beside[s.stack, s.sums]):
            if form not in but:
                return f"the sublayer of {s.matrices[-1].name if s.matrices else s.kind} {why}"
    return _shared(found)


def _forms(s: Sublayer, beside: int) -> Iterator[tuple[str, str]]:
    if beside > 1:
        yield "parallel", "stands in parallel with another, which has no law here"
    if any(n.where == "inside" for n in s.norms):
        yield INSIDE, "has a norm within its branch, which has no law here"
    if s.learnt is not None:
        yield LEARNT, f"is multiplied by {s.learnt}, which is learnt: its steps have no law here"
    elif s.branch == 0:
        yield "zero", "is multiplied by 0"


def _shared(found: Reading) -> str:
    """Which parameters several sublayers share; no word where none do."""
    used = Counter(name for s in found.sublayers for name in _own_names(s))
    names = [name for name, times in used.items() if name and times > 1]
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"{used[names[0]]} sublayers share {names[0]}{more}: a step of it is a step of all of "
        "them at once, which has no law here"
    )


def _own_names(s: Sublayer) -> dict[str, None]:
    """The matrices and norm gains of a sublayer, each once."""
    return dict.fromkeys([*(m.where for m in s.matrices), *(n.gain or "" for n in s.ruled_norms)])
