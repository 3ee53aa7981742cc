"""An audit as a document: the verdict, what differs and the line that fixes it, every gain."""

from __future__ import annotations

from re import sub
from typing import TYPE_CHECKING

from deepnet_theory.definitions.audit import REMARK
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.report import document as doc
from deepnet_theory.report.document import interval, number
from deepnet_theory.report.experiment import noise_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepnet_theory.definitions.audit import Audit, Finding

FIRST = 3  # findings that fit a screen with the verdict


def document(audit: Audit) -> doc.Document:
    """The verdict and the first findings; then the others, the gains and what was not read."""
    told = [tuple(_finding(finding)) for finding in audit.findings]
    remarks = tuple(f"{remark}." for remark in audit.remarks)
    body: doc.Body = (
        answer(audit),
        *(block for finding in told[:FIRST] for block in finding),
        doc.Document("Further findings", tuple(b for finding in told[FIRST:] for b in finding)),
        doc.Document("Gains", (_gains(audit),)),
        doc.Document("Gradient noise", (noise_table(audit.noise),)),
        doc.Document("Not understood", tuple(not_understood(audit))),
        doc.Document("Remarks", remarks),
    )
    by = f" by {audit.scheme}" * bool(audit.scheme)
    under = f" under {audit.optimizer}" * bool(audit.optimizer)
    return doc.Document(f"Audit of {audit.model}{by}{under}", body)


def answer(audit: Audit) -> tuple[Verdict, str]:
    layers = " and ".join(f"{n} {name} layers" for name, n in audit.reading.layers.items())
    alike = len({s.equation for s in audit.reading.sublayers}) == 1
    nameless = "of a placement that has no name here" if alike else audit.reading.said_ways()
    placement = audit.placement or nameless
    held = f"{audit.against} ({audit.detail})"
    if audit.growth:
        judged = (
            f"Implemented as published ({audit.follows}). {audit.growth}: not stable in depth. The "
            f"rule for it: derive --optimizer {audit.optimizer} --placement {placement}"
        )
    elif audit.verdict is Verdict.SUPPORTED:
        also = f"; so do {', '.join(audit.alike)}" * bool(audit.alike)
        judged = f"It follows {held}{also}"
    elif audit.against is None:
        judged = f"It was compared with no rule{f': {audit.refusal}' * bool(audit.refusal)}"
    elif audit.verdict is Verdict.UNDECIDED:
        judged = f"What was understood follows {held}"
    else:
        nearest = "rule" if audit.optimizer else "scheme or rule (no optimizer was given)"
        of = f"the nearest {nearest}, " * (not audit.scheme)
        count = len(audit.differences)
        judged = f"{count} difference{'s' * (count > 1)} from {of}{held}"
        if audit.effect is not None:
            ends = interval(audit.effect_low, audit.effect_high, ".3g")
            times = f"{number(audit.effect, '.3g')} times ({ends}) as much as on a fixed copy"
            judged += f"; measured, one update changes the output {times}"
    return audit.verdict, f": {judged}. The model: {placement}, {layers}."


def _finding(finding: Finding) -> Iterator[doc.Block]:
    remark = "Remark: " if finding.severity == REMARK else ""
    yield f"{remark}{finding.where}: {finding.what}."
    yield doc.Listing(finding.mend.replace("  # ", "\n# "))


def not_understood(audit: Audit) -> Iterator[str]:
    """Sentences on what was not read, and on matrices without a role."""
    yield from (f"{note}." for note in audit.reading.notes)
    alike: dict[tuple[str, str], list[str]] = {}
    for s in audit.reading.sublayers:
        if s.why:
            alike.setdefault((s.stack, sub(r"\d+", "#", s.why)), []).append(s.why)
    for (stack, _), whys in alike.items():
        yield f"In the {stack}{f', {len(whys)} branches' * (len(whys) > 1)}: {whys[0]}."
    understood = {m.where for s in audit.reading.sublayers if s.why for m in s.matrices}
    if strange := [where for where in audit.reading.strange if where not in understood]:
        more = f" and {len(strange) - FIRST} more" * (len(strange) > FIRST)
        yield f"The role of {', '.join(strange[:FIRST])}{more}; in Python, roles={{…}} names it."


def _gains(audit: Audit) -> doc.TableBlock:
    """One row a kind of sublayer and matrix: the range over layers and experts, and the rule's."""
    found: dict[tuple[str, str], list[float]] = {}
    expected: dict[tuple[str, str], float | None] = {}
    for s in audit.sublayers:
        on = f"of the {s['alpha_on']}" if s["alpha_on"] else "(no multiplier)"
        alpha = (f"alpha {on}", s["alpha"], s["alpha"], s["alpha_wanted"])
        gains = ((m["role"], m["low"], m["high"], m["wanted"]) for m in s["matrices"])
        for what, low, high, wanted in (alpha, *gains):
            key = f"{s['stack']} {s['kind']}", what
            found.setdefault(key, []).extend((low, high))
            expected.setdefault(key, wanted)
    ends = {key: [number(end(g), "z.3g") for end in (min, max)] for key, g in found.items()}
    rows = (
        (*key, " to ".join(dict.fromkeys(ends[key])), number(wanted, "z.3g"))
        for key, wanted in expected.items()
    )
    return doc.table("sublayer | what | >found | >expected", rows)
