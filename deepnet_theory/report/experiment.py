"""What an experiment found, as a document: its answer, its numbers and its figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from deepnet_theory.definitions.measurement import (
    MODEL,
    PREDICTION,
    QUANTITY,
    TRAINING,
    TRANSFER,
    sized,
)
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.rule import PLAIN
from deepnet_theory.report import document as doc
from deepnet_theory.report.document import SIGNED, interval, number, power
from deepnet_theory.report.training import answers, runs, runs_figure, transfer, transfer_figure

if TYPE_CHECKING:
    from deepnet_theory.definitions.measurement import AssumptionResult, Estimate, Exponent, Result

    Points = Sequence[Estimate]

MOST_SHARES = 12  # on a page; the JSON has all
CAPTION = (
    "One step's change of the output per unit of learning rate{held}. Bars are 95 % intervals over "
    "seeds. Lines have the predicted slopes: solid for this rule, dashed for others. The band is "
    "the absolute size that single sublayers predict."
)
NOISE = (
    "B_noise in sequences: in a batch of that size the noise of the gradient is as large as its "
    "signal. Rows and experts are grouped by the share of the sequences that they are seen by."
)
TRAINED = {TRANSFER: "Does the learning rate transfer? ", TRAINING: "Training: "}
SETTINGS = ("data", "steps", "width", "tokens", "batch", "step", "lr", "seeds", "sequences")


def document(m: Result) -> doc.Document:
    """The whole experiment, and those on the same network under other rules."""
    settings = ", ".join(f"{key} {m.settings[key]}" for key in SETTINGS if key in m.settings)
    how = "Trained" if m.schema in TRAINED else "Measured"
    ended: doc.Words = (m.verdict, f" ({m.provenance.ran})")
    if m.schema == PREDICTION:
        how, ended = "Predicted from single sublayers, with no free constant", m.provenance.ran
    rows = m.of.get("rows", {})
    used = m.of.get("row", next(iter(rows), None))
    here = f", {how.lower()} here"
    body: doc.Body = (
        *(f"{n}{here * (n == used)}: {rows[n]}." for n in sorted(rows, key=lambda n: n != used)),
        *answers_of(m),
        f"{how}: {settings}." * bool(settings),
        m.because * (m.schema not in TRAINED),
        str(m.of.get("condition", "")),
        *sections(m),
        doc.Document("Assumptions", (assumptions(m.assumptions),)),
        f"{m.stopped}: a part of what was asked for." * bool(m.stopped),
        ended,
    )
    return doc.Document(f"{TRAINED.get(m.schema) or f'{y_label(m)}, '}{subject(m)}", body)


def sections(m: Result) -> tuple[doc.Document, ...]:
    """Exponents, points with their figures, shares, trainings, warnings."""
    shares, left = m.shares[:MOST_SHARES], len(m.shares) - MOST_SHARES
    more = f"{left} more, each smaller than these." * (left > 0)
    at = sized(m.points[-1].at) if m.points else "the last point"
    several = len({s.at.get("part") for s in shares}) > 1
    names = (" ".join(s.at.values()) if several else s.at["name"] for s in shares)
    sizes = (sized(p.at) for p in m.points)
    drawn = figures(m)
    return (
        doc.Document("Exponents", (judged(m.exponents),)),
        *(
            doc.Document(
                f"Exponents, {c.closure}, ρ/η = {c.rho or '-'}",
                (judged((*c.exponents, *c.signal)),),
            )
            for c in m.closures
        ),
        *transfer(m, drawn),
        doc.Document("Points", (*(drawn if m.points else ()), _estimates("size", sizes, m.points))),
        doc.Document(f"Trained alone, at {at}", (_estimates("parameters", names, shares), more)),
        *runs(m, drawn),
        doc.Document("Gradient noise", (NOISE * bool(m.noise), noise_table(m.noise))),
        doc.Document("Warnings", m.provenance.warnings),
    )


# ---- sentences ----


def y_label(m: Result) -> str:
    """What the points are."""
    if m.noise and not m.points:
        return "Gradient noise"
    return "‖ΔF‖/η over ‖F‖" if m.points and "d" in m.points[0].at else QUANTITY


def subject(m: Result) -> str:
    """Which network was measured, what trained it, and its rule."""
    select = m.of.get("select", {})
    by = m.of.get("optimizer") or select.get("optimizer") or select.get("update")
    network = (m.of.get("model"), select.get("placement"), select.get("stack"))
    words = " ".join(str(word) for word in network if word)
    predicted = "predicted" * (m.schema == PREDICTION)
    named = (words, f"trained with {by}" * bool(by), rule_words(m), predicted)
    return ", ".join(filter(None, named))


def answers_of(m: Result) -> tuple[doc.Words, ...]:
    """What was found, a sentence a rule with its verdict; nothing of a prediction."""
    return answers(m) if m.schema in TRAINED else (answer(m),) * (m.schema != PREDICTION)


def answer(m: Result) -> tuple[doc.Inline, ...]:
    """How ‖ΔF‖ depends on the size, and the verdict."""
    if m.noise and not m.points:
        whole = m.noise[0]
        ends = interval(whole.low, whole.high, ".3g")
        told = f"B_noise of all parameters: {number(whole.mean, '.3g')} sequences ({ends})"
        return f"{whole.finding or told}: ", m.verdict, "."
    if not m.exponents:
        return (m.verdict, ": no exponent was measured.")
    if "across" in m.of.get("select", {}):  # exponents of the features and the loss in the width
        wrong = ", ".join(e.share for e in m.exponents if e.verdict is Verdict.REFUTED)
        right = sum(e.verdict is Verdict.SUPPORTED for e in m.exponents)
        told = f"{right} of {len(m.exponents)} exponents as predicted"
        return f"{told}{f', not {wrong}' * bool(wrong)}: ", m.verdict, "."
    return f"‖ΔF‖ {m.trend}{'. Constant in depth' * (m.schema == MODEL)}: ", m.verdict, "."


def rule_words(m: Result) -> str:
    """Whose rule was measured."""
    name = str(m.of.get("rule", {}).get("name", ""))
    if name in ("custom", "own"):  # the first is derived, for an update that has no name
        return "derived rule" if name == "custom" else "own rule"
    others = ", ".join(n for n in name.split(", ") if n != PLAIN)
    plain = "α = β = 1" if name.endswith(PLAIN) else ""
    return ", ".join(words for words in (others and f"rule of {others}", plain) if words)


# ---- tables ----


def _estimates(what: str, names: Iterable[str], estimates: Points) -> doc.TableBlock:
    """‖ΔF‖/η at every size, or with one kind of parameter trained alone."""
    rows = []
    for name, e in zip(names, estimates, strict=True):
        predicted, *ends = e.predicted or (None, None, None)
        measured = number(e.mean), interval(e.low, e.high), str(len(e.values) or "")
        absolute = number(predicted, missing=""), interval(*ends) if e.predicted else ""
        rows.append((name, *measured, *absolute, e.finding))
    columns = "mean | >95 % interval | >seeds | >predicted | >its interval | …finding"
    return doc.table(f"{what} | >{columns}", rows)


def noise_table(noise: Points) -> doc.TableBlock:
    """B_noise by group; at least its lower end where it has no upper one."""
    rows = []
    for e in noise:
        bounded = math.isfinite(e.high)
        size = number(e.mean, ".3g") if bounded else f"above {number(e.low, '.3g')}"
        told = (size, interval(e.low, e.high, ".3g"), e.finding)
        rows.append((e.at["group"], e.at["role"], *told))
    return doc.table("group | role | >B_noise | >95 % interval | …finding", rows)


def judged(exponents: Sequence[Exponent]) -> doc.TableBlock:
    """Exponents with their verdicts, and the reason of each."""
    rows = (
        (
            f"in {e.variable}, {e.share}",
            e.verdict,
            number(e.estimate, SIGNED),
            interval(e.low, e.high, SIGNED),
            number(e.predicted, missing="none"),
            _because(e),
        )
        for e in exponents
    )
    columns = "exponent | verdict | >measured | >95 % interval | >predicted | …because"
    return doc.table(columns, rows)


def _because(e: Exponent) -> str:
    rivals = ", ".join(f"{name} {power(slope)}" for name, slope in e.rivals)
    parts = (
        f"fitted from {e.variable} = {e.fitted_from}" * (e.fitted_from is not None),
        e.because,
        f"other optimizers' rules here: {rivals}" * bool(rivals),
    )
    return "; ".join(filter(None, parts))


def assumptions(measured: Sequence[AssumptionResult]) -> doc.TableBlock:
    """Every assumption with its measurement, whose reason tells the interval."""
    rows = ((a.name, a.verdict, a.statement, a.because) for a in measured)
    return doc.table("assumption | verdict | …statement | …measured", rows)


# ---- figures: what was measured beside what was predicted ----


def figures(m: Result, rivals: Sequence[Result] = ()) -> tuple[doc.Figure, ...]:
    """The points against each size that varies, with the predicted slopes.

    Of two depths the other one is held at its lowest value. Of trainings: losses, against the rate
    or the step.
    """
    if m.schema in TRAINED:
        return transfer_figure(m) if m.closures else runs_figure(m)
    sizes = {s: len({p.at[s] for p in m.points}) > 1 for p in m.points[:1] for s in p.at}
    varying = [s for s, varies in sizes.items() if varies] or [*sizes][:1]
    held = "; the other size is at its lowest" * (len(sizes) > 1)
    drawn = []
    for one in varying:
        series = [_series(r, one, min(i, 3)) for i, r in enumerate((m, *rivals))]
        panel = (subject(m), tuple(series))
        label = "d, width" if one == "d" else f"{one}, layers"
        drawn.append(doc.Figure((panel,), label, y_label(m), CAPTION.format(held=held)))
    return tuple(drawn)


def _series(m: Result, variable: str, colour: int) -> doc.Series:
    """Points and the line of their predicted slope, through the first that entered the fit."""
    shown, label = along(m.points, variable), rule_words(m) or str(m.of.get("model", "predicted"))
    marks = tuple(doc.Mark(p.at[variable], p.mean, p.low, p.high) for p in shown)
    exponent = next((e for e in m.whole if e.variable == variable), None)
    if exponent is None or exponent.predicted is None:
        # what is far from the identity has no law, and no size to be held against
        return doc.Series(label, marks, colour=colour)
    band = tuple(doc.Mark(p.at[variable], *p.predicted) for p in shown if p.predicted is not None)
    start, more = exponent.fitted_from or 0, {"band": band, "colour": colour, "dashed": colour > 0}
    return doc.sloped(label, marks, exponent.predicted, start, **more)


def along(points: Points, variable: str) -> list[Estimate]:
    """The points where only ``variable`` varies, the other size at its lowest.

    Where both grow together no two points share the other size: all are taken.
    """
    least = {s: min(p.at[s] for p in points) for p in points[:1] for s in p.at if s != variable}
    held = [p for p in points if all(p.at[s] == n for s, n in least.items())]
    return sorted(held if len(held) > 1 else points, key=lambda p: p.at[variable])
