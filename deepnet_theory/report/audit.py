"""An audit as a document: the verdict, what differs and the line that fixes it, every gain."""

from __future__ import annotations

from re import sub
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from deepnet_theory.definitions.audit import REMARK
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.reading import EXACT
from deepnet_theory.report import document as doc
from deepnet_theory.report.document import interval, number
from deepnet_theory.report.experiment import noise_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepnet_theory.definitions.audit import Audit, Finding

EXCEPTIONS = "The gain of each layer, and the expected one: few layers differ from the others."
FIRST = 3  # findings that fit a screen with the verdict


class Gain(NamedTuple):
    """α or a gain of one layer: the ends of its interval, and what the rule expects."""

    layer: int
    low: float
    high: float
    expected: float | None


def document(audit: Audit) -> doc.Document:
    """The verdict and the first findings; then the others, the gains and what was not read."""
    told = [tuple(_finding(finding)) for finding in audit.findings]
    remarks = tuple(f"{remark}." for remark in audit.remarks)
    body: doc.Body = (
        answer(audit),
        *(block for finding in told[:FIRST] for block in finding),
        doc.Document("Further findings", tuple(b for finding in told[FIRST:] for b in finding)),
        doc.Document("Gains", (*exceptions(audit), _gains(audit))),
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
    rows = []
    for key, gains in _by_kind(audit).items():
        values = [end for gain in gains for end in gain[1:3]]
        first, last = number(min(values), "z.3g"), number(max(values), "z.3g")
        shown = first if first == last else f"{first} to {last}"
        rows.append((*key, shown, number(gains[0].expected, "z.3g")))
    return doc.table("sublayer | what | >found | >expected", rows)


def _by_kind(audit: Audit) -> dict[tuple[str, str], list[Gain]]:
    """What was found and expected of every kind of sublayer and matrix, layer by layer."""
    found: dict[tuple[str, str], list[Gain]] = {}
    for s in audit.sublayers:
        on = f"of the {s['alpha_on']}" if s["alpha_on"] else "(no multiplier)"
        alpha = (f"alpha {on}", s["alpha"], s["alpha"], s["alpha_wanted"])
        gains = ((m["role"], m["low"], m["high"], m["wanted"]) for m in s["matrices"])
        for what, low, high, expected in (alpha, *gains):
            key = f"{s['stack']} {s['kind']}", what
            found.setdefault(key, []).append(Gain(s["layer"], low, high, expected))
    return found


def exceptions(audit: Audit) -> Iterator[doc.Figure]:
    """A figure of every gain that fewer than half of the layers have otherwise than the others.

    Such a layer is further from the median layer than two usual intervals.
    """
    for key, gains in _by_kind(audit).items():
        if min(gain.low for gain in gains) <= 0:
            continue
        middles = [(gain.low * gain.high) ** 0.5 for gain in gains]
        usual, width = median(middles), median(gain.high / gain.low for gain in gains)
        far = [max(m / usual, usual / m) > width**2 * (1 + EXACT) for m in middles]
        if 0 < sum(far) < len(gains) / 2:
            found = tuple((float(gain.layer), m) for gain, m in zip(gains, middles, strict=True))
            rule = tuple((float(g.layer), g.expected) for g in gains if g.expected is not None)
            series = (
                doc.Series("found", line=found, measured=True),
                doc.Series("expected", line=rule, colour=1, dashed=True),
            )
            panels = ((", ".join(key), series),)
            yield doc.Figure(panels, "layer", "gain", EXCEPTIONS, linear=True, counted=True)
