"""What no rule has a law for: ``audit`` and ``apply_`` refuse and warn alike."""

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
    return ""


def _forms(s: Sublayer, beside: int) -> Iterator[tuple[str, str]]:
    if beside > 1:
        yield "parallel", "stands in parallel with another, which has no law here"
    if any(n.where == "inside" for n in s.norms):
        yield INSIDE, "has a norm within its branch, which has no law here"
    if s.learnt is not None:
        yield LEARNT, f"is multiplied by {s.learnt}, which is learnt: its steps have no law here"
    elif s.branch == 0:
        yield "zero", "is multiplied by 0"


def warnings(found: Reading) -> tuple[str, ...]:
    """What a rule takes otherwise than the model has it, and can be used beside."""
    served = Counter((m.name, m.outputs) for s in found.sublayers for m in s.matrices)
    most = max(served.values(), default=1)
    if most == 1:
        return ()
    (name, _), times = served.most_common(1)[0]
    return (
        f"sublayers share their matrices ({name} serves {times} of them); the rule takes every "
        "sublayer's as its own",
    )
