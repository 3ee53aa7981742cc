"""The trainings of an experiment: losses against the rate by rule, and losses step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepnet_theory.definitions.measurement import TRAINING, sized
from deepnet_theory.report import document as doc
from deepnet_theory.report.document import SIGNED, interval, number

if TYPE_CHECKING:
    from deepnet_theory.definitions.measurement import ClosureTransfer, Estimate, Plan, Result, Run

CURVES = (
    "A curve a size, the darker the larger. A large dot is the best rate with its 95 % interval "
    "over seeds. At the top edge, a triangle is a loss above the axis, and a cross is a rate where "
    "a run diverged. The dashed line is the loss of a model that ignores its input."
)
JUDGED = (
    "SUPPORTED: the exponent's interval over seeds lies inside ±1/16. REFUTED: it lies outside, or "
    "at the smallest model's best rate the largest model loses more than a tenth of what the "
    "smallest has learnt."
)
RIVALS = (
    "A wrong rule has other gains or rates, the same at the smallest size. REFUTED also: at the "
    "best rate of the smallest size it loses more than a rate that is off by √2 costs there. The "
    "power is the probability that a best rate that scales as N^(1/8) is REFUTED."
)
STEPPED = (
    "T is the number of steps. How the best rate falls with T is measured on this loss and "
    "schedule, and is no rule. The signal's part of the loss falls as (ηT)^(-s), and the noise "
    "that is left as η·(ηT)^(-u), u = 0 at a constant rate: together they ask for "
    "T^(-(s - u)/(1 + s - u)). SUPPORTED there: s is above u."
)
COMMON = (
    "R is the summed weight, compared with the stream, of what the branches add to all tokens "
    "alike. A token's own part is divided by cosh(R) with a norm on every sum, by sqrt(1 + R**2) "
    "without."
)
STEPS = "Training loss, the mean over the seeds. A curve ends where the loss was not finite."
LOSS = "nats a byte"


def answers(m: Result) -> tuple[doc.Words, ...]:
    """The answer of every rule, or the one of a short training."""
    whole = (m.verdict, f": {m.because}.")
    unit = "" if "model" in m.of else " nats"
    each = [_answer(closure, unit) for closure in m.closures]
    return (*((whole,) * bool(m.because)), *each) or (whole,)


def _answer(closure: ClosureTransfer, unit: str) -> tuple[doc.Inline, ...]:
    scales = "; ".join(
        f"the best rate scales as {e.variable}^{number(e.estimate, '.3f')}, {e.because}"
        for e in closure.exponents
        if math.isfinite(e.estimate)
    )
    scales = scales or f"no exponent of the best rate; {closure.exponent.because}"
    if (cost := closure.cost) is not None and math.isfinite(cost.mean):
        first, last = (sized(c.depth) for c in (closure.curves[0], closure.curves[-1]))
        rate = number(cost.at["rate"], ".3g")
        costs = f"the rate {rate}, best at {first}, costs {_added(cost)}{unit} at {last}"
        costs += ", compared with the best rate there" * ("T" in closure.curves[-1].depth)
        scales = "; ".join((costs, scales, *(e.because for e in closure.signal[:1])))
    return f"{closure.closure}: {scales}: ", closure.verdict, "."


def _added(cost: Estimate | None) -> str:
    """A difference of losses with its interval."""
    if cost is None:
        return "-"
    ends = interval(cost.low, cost.high, "+z.3f")
    return number(cost.mean, "+z.3f") + f" ({ends})" * (ends != "-")


# ---- many rates ----


def transfer(m: Result, drawn: Sequence[doc.Figure]) -> Iterator[doc.Document]:
    """The best rate of every curve, with the figure, and the losses against the rate."""
    if m.rivals:
        yield doc.Document("Wrong rules", (RIVALS, _rivals(m), left_out(m.of.get("left_out", ()))))
    if m.closures:
        level = () if m.baseline is None else (f"Baseline {number(m.baseline, '.3f')}.",)
        steps = STEPPED * any(c.signal for c in m.closures)
        yield doc.Document("Best learning rates", (JUDGED, steps, *drawn, _rates(m), *level))
        for c in (*m.closures, *m.rivals):
            yield doc.Document(f"Losses, {c.closure}", (_losses_by_rate(c),))


def _rivals(m: Result) -> doc.TableBlock:
    """What every wrong rule loses to the rule at the base's best rate, and where its own moves."""
    rows = []
    for one in m.rivals:
        moves, ends = "-", "-"
        if known := [e for e in one.exponents if not math.isnan(e.estimate)]:
            e = max(known, key=lambda e: abs(e.estimate))
            moves = f"{e.variable}^{e.estimate:{SIGNED}}"
            ends = interval(e.low, e.high, SIGNED)
        rows.append((one.closure, one.verdict, _added(one.gap), moves, ends))
    columns = (
        "wrong rule | verdict | >loss above the rule's | >best rate scales as | >95 % interval"
    )
    return doc.table(columns, rows)


def left_out(names: Sequence[str]) -> str:
    """Which wrong rules are not there."""
    return f"Left out, as they are another of these rules here: {', '.join(names)}." * bool(names)


def plan(p: Plan) -> doc.Document:
    """How many runs a transfer with rivals needs, and what it could tell."""
    table = doc.table("rule | >runs", [(name, str(n)) for name, n in p.runs.items()])
    told = (
        f"With {p.seeds} seeds these are {sum(p.runs.values())} runs, and the power to expect is "
        f"{p.power:.2f}: so likely is a best rate that scales as N^(1/8) REFUTED, with the largest "
        "scatter of seeds that was measured at width 64. A power of 0.8 needs "
        f"{p.needed} seeds, or rates that are a larger factor apart."
    )
    return doc.Document("Planned: against wrong rules", (told, table, left_out(p.left_out)))


def _losses_by_rate(closure: ClosureTransfer) -> doc.TableBlock:
    """The mean loss of every rate, a column a size."""
    by_rate = [dict(zip(c.rates, c.losses, strict=True)) for c in closure.curves]
    columns = " | >".join(("rate", *(sized(c.depth) for c in closure.curves)))
    rows = (
        (number(rate, ".3g"), *(_loss(row, rate) for row in by_rate))
        for rate in sorted({rate for row in by_rate for rate in row})
    )
    return doc.table(columns, rows)


def _loss(by_rate: Mapping[float, float], rate: float) -> str:
    return number(by_rate[rate], ".3f", "diverged") if rate in by_rate else "-"


def _rates(m: Result) -> doc.TableBlock:
    """The best rate of every curve, or why there is none, and the lowest loss that was measured."""
    rows = []
    for closure in m.closures:
        for c in closure.curves:
            lowest = min(filter(math.isfinite, c.losses), default=math.nan)
            lowest = c.best_loss if math.isfinite(c.best) else lowest
            told = (number(c.best, ".3g"), interval(c.low, c.high, ".3g"), number(lowest, ".3f"))
            size = (closure.closure, sized(c.depth))
            rows.append((*size, *told, number(c.first_failing), c.finding))
    columns = "closure | depth | >best rate | >95 % interval | >lowest loss | >fails from"
    return doc.table(f"{columns} | …finding", rows)


def transfer_figure(m: Result) -> tuple[doc.Figure]:
    """Loss against rate, a panel a closure, compared with a model that ignores its input."""
    y_label = "evaluate()" if "model" in m.of else f"validation loss, {LOSS}"
    panels = tuple((c.closure, tuple(_curves(c))) for c in m.closures)
    figure = doc.Figure(panels, "learning rate", y_label, CURVES, linear=True)
    losses = [y for c in m.closures for curve in c.curves for y in curve.losses if y < math.inf]
    if m.baseline is None or not losses:
        return (figure,)
    learnt = abs(m.baseline - min(losses))  # as much is shown above the baseline as below it
    top = max(m.baseline, min(losses)) + max(learnt, 0.05 * abs(m.baseline))
    return (replace(figure, level=(m.baseline, "baseline"), top=top),)


def _curves(c: ClosureTransfer) -> Iterator[doc.Series]:
    last = max(1, len(c.curves) - 1)
    for index, curve in enumerate(c.curves):
        best = (doc.Mark(curve.best, curve.best_loss, curve.low, curve.high, True),)
        line = tuple(zip(curve.rates, curve.losses, strict=True))
        marks = best if math.isfinite(curve.best) else ()
        yield doc.Series(sized(curve.depth), marks, line, shade=index / last, measured=True)


# ---- one rate ----


def runs(m: Result, drawn: Sequence[doc.Figure]) -> Iterator[doc.Document]:
    """The first and the last loss, R and cosine of every run, and why one ended early."""
    if m.runs:
        trained = m.schema == TRAINING
        rows = ((run.rule if trained else sized(run.depth), *_run(run)) for run in m.runs)
        columns = ">steps | >loss | >validation | >largest R | >tokens' cosine | …finding"
        table = doc.table(f"{'run' if trained else 'depth'} | {columns}", rows)
        level = f"Unigram entropy {number(m.baseline, '.3f')} {LOSS}." * trained
        figures = drawn if trained else ()
        yield doc.Document(
            "Losses, from the first step to the last", (table, level, COMMON, *figures)
        )


def _run(run: Run) -> Iterator[str]:
    def both(values: Sequence[float], form: str) -> str:
        return (
            " → ".join(number(value, form) for value in (values[0], values[-1])) if values else ""
        )

    yield str(len(run.losses))
    yield both(run.losses, ".3f")
    yield number(run.held_out, ".3f", "")
    yield number(max(run.common_mode, default=None), ".2f", "")
    yield both(run.token_cosine, ".2f")
    yield run.finding


def runs_figure(m: Result) -> tuple[doc.Figure, ...]:
    """Loss against step of every run, compared with the unigram entropy."""
    series = tuple(
        doc.Series(run.rule, line=tuple(enumerate(run.losses, start=1)), colour=min(index, 3))
        for index, run in enumerate(m.runs)
    )
    first = [one.line[0][1] for one in series if one.line]
    if m.baseline is None or not first:
        return ()
    level, y_label = (m.baseline, "unigram entropy"), f"cross-entropy, {LOSS}"
    panels, top = (("Training loss", series),), max(*first, m.baseline)
    return (doc.Figure(panels, "step", y_label, STEPS, True, level, top),)
