r"""Does a rate that was tuned on a small model transfer, and would this test see a wrong rule?

    python benchmarks/certificate.py --forecast --form gpu
    python benchmarks/certificate.py --device cuda --minutes 8 -o runs.jsonl
    python benchmarks/certificate.py --page runs.jsonl

The arms are in ``rivals.py``. Each arm's rate is tuned at the base; wider and deeper models train
at it. Runs are made in the order of what they decide, several at once on a GPU. Each is a line of
the file when it ends, and the same command goes on from there.

The regret of an arm at a size is its mean loss at the base's best rate above the lowest one there,

.. math:: r = \max_j\,(\bar L - \bar L_j) \;\pm\; t_{1-0.025/J,\,f}\; s\sqrt{2/n},

over J other cells (a rate of the family's rule or of the arm itself) and the n seeds of both; s,
with f degrees of freedom, is what is left of one run's loss after the means of cell and seed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice, product
from pathlib import Path
from statistics import fmean, variance
from typing import Any, NamedTuple

import rivals
import torch
from arguments import output, whole
from rivals import ALL, ARMS, MUON, POST, RULE, RULES, STANDARD, WRONG, Arm, Form, Run, Size
from scipy.special import stdtr, stdtrit
from scipy.stats import spearmanr

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.laboratory.statistics import Interval
from deepnet_theory.report.document import Figure, Mark, Series
from deepnet_theory.report.figure import drawn

FORMS = {
    "gpu": Form((128, 4), (1024, 4), (128, 32), (512, 32), 306, 64, 256),
    "cpu": Form((32, 4), (128, 4), (32, 32), (64, 16), 500, 16, 128),
    "tiny": Form((32, 2), (64, 2), (32, 8), (64, 4), 20, 8, 64),
}
BEGAN, RESERVE = time.time(), 10.0  # the start, and seconds that are kept for the end
DIVERGED = math.log(256)  # the loss that a run without a loss counts as
ENOUGH = 5  # degrees of freedom of a scatter; with fewer the base's is taken
PAGE = Path(__file__).parent / "results" / "certificate.md"
FIGURES = Path(__file__).parents[1] / "docs"  # those of the pages in results
STEPPED, AFTER = [tuple(a.name for a in ALL if word in a.name) for word in ("Muon", "post-LN")]
CORNERS, BOTH, ONE, AROUND = ("wide", "deep"), ("both",), (1.0,), (0.5, 2.0)
# arms, sizes, rates over the base's best, seeds
ROUNDS = (
    ((RULE, STANDARD), BOTH, ONE, (0,)),
    ((RULE,), BOTH, AROUND, (0,)),
    (tuple(RULES.values()), ("base",), (*ONE, *AROUND), (2, 3)),  # how steep the loss is there
    ((RULE, *WRONG, STANDARD), CORNERS, ONE, (0,)),
    ((RULE,), CORNERS, AROUND, (0,)),
    (STEPPED, CORNERS, ONE, (0,)),
    (AFTER, BOTH, ONE, (0,)),
    ((RULE, *WRONG), CORNERS, ONE, (1,)),
    ((RULE,), CORNERS, AROUND, (1,)),
    ((RULE, STANDARD), BOTH, ONE, (1,)),
    ((STANDARD,), BOTH, (0.5, 0.25), (0,)),
    ((MUON,), CORNERS, AROUND, (0,)),
    ((POST,), BOTH, AROUND, (0,)),
    (STEPPED, BOTH, ONE, (0,)),
    (WRONG, BOTH, ONE, (0,)),
    (tuple(ARMS), (*CORNERS, *BOTH), ONE, (1, 2)),
)
Losses = Mapping[Run, float]
Cells = Mapping[tuple[str, float], Mapping[int, float]]  # losses by seed, of an arm and a rate


# ---- what is run, and when ----


def tuned(arm: Arm, form: Form, losses: Losses) -> tuple[float, list[Run]]:
    """The base's best rate by the mean of two seeds; or 0, and what is left to run to know it."""
    if not arm.start:
        return tuned(ARMS[RULE], form, losses)
    rates = [arm.start / 2, arm.start, 2 * arm.start]
    while True:
        runs = {rate: [Run(arm.name, form.base, rate, seed) for seed in (0, 1)] for rate in rates}
        missing = [run for pair in runs.values() for run in pair if run not in losses]
        if missing:
            return 0.0, missing
        best = min(rates, key=lambda rate: fmean(losses[run] for run in runs[rate]))
        if rates[0] < best < rates[-1] or len(rates) > 8:
            return best, []
        rates = [best / 2, *rates] if best == rates[0] else [*rates, best * 2]


def plan(form: Form, losses: Losses) -> Iterator[Run]:
    """What is known to be left to run: bases first, then what decides most.

    A wrong rule is not run where its constants are the rule's.
    """
    for arm in ALL:
        yield from tuned(arm, form, losses)[1]
    for names, places, factors, seeds in ROUNDS:
        for seed, place, factor, name in product(seeds, places, factors, names):
            best, size = tuned(ARMS[name], form, losses)[0], getattr(form, place)
            run = Run(name, size, best * factor, seed)
            says = name not in WRONG or rivals.forecast(ARMS[name], size, form)[1] > 1e-9
            if best and says and run not in losses:
                yield run


class Record:
    """The runs of a file: of one form, machine and text, by default those of its last line."""

    def __init__(self, file: Path, made: Mapping[str, str] | None = None) -> None:
        read = file.read_text("utf-8").splitlines() if file.is_file() else ()
        lines = [json.loads(line) for line in read]
        self.file, self.made = file, made or (lines[-1]["made"] if lines else {"form": "gpu"})
        self.losses: dict[Run, float] = {}
        self.seconds: dict[Size, list[float]] = defaultdict(list)
        for line in lines:
            if line["made"] == self.made:
                self.keep(Run(line["arm"], tuple(line["size"]), line["rate"], line["seed"]), line)

    def keep(self, run: Run, answer: Mapping[str, Any]) -> None:
        self.losses[run] = DIVERGED if answer["loss"] is None else answer["loss"]
        self.seconds[run.size].append(answer["seconds"])


def work(record: Record, device: str, processes: int, until: float) -> None:
    """Run what is left, until nothing more fits."""
    form, failed = FORMS[record.made["form"]], Counter[Run]()
    running: dict[Future[dict[str, Any] | None], Run] = {}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        while time.time() < until:
            left = (
                run
                for run in plan(form, record.losses)
                if run not in running.values()
                and failed[run] < 2
                and time.time() + max(record.seconds[run.size], default=0) < until
            )
            for run in islice(left, processes - len(running)):
                running[pool.submit(rivals.train, run, form, device, until)] = run
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                run = running.pop(done)
                try:
                    answer = done.result()
                except RuntimeError as error:  # no memory, say: it has a second chance
                    failed[run] += 1
                    print(f"{run}: {error}"[:300], flush=True)
                    continue
                if answer is not None:
                    record.keep(run, answer)
                    line = json.dumps({**run._asdict(), **answer, "made": record.made})
                    print(line, flush=True)
                    with record.file.open("a", encoding="utf-8") as opened:
                        opened.write(line + "\n")


# ---- what it says ----


class Scatter(NamedTuple):
    """The standard deviation of one run, and its degrees of freedom."""

    s: float
    freedom: int

    def half(self, seeds: int, others: int) -> float:
        """Half an interval of the difference of two cells, one of ``others`` differences."""
        t = stdtrit(self.freedom, 1 - 0.025 / others) if self.freedom else math.inf
        return float(t) * self.s * math.sqrt(2 / seeds)


def scatter(tables: Sequence[Cells]) -> Scatter:
    """The scatter of the runs that did not diverge, from the first two seeds of every cell."""
    squares, freedom = 0.0, 0
    for cells in tables:
        pairs = [(cell[0], cell[1]) for cell in cells.values() if {0, 1} <= cell.keys()]
        gaps = [a - b for a, b in pairs if max(a, b) < DIVERGED]
        if len(gaps) > 1:
            squares += variance(gaps) * (len(gaps) - 1) / 2
            freedom += len(gaps) - 1
    return Scatter(math.sqrt(squares / freedom) if freedom else 1.0, freedom)


def regret(name: str, rate: float, cells: Cells, of: Scatter) -> Interval:
    """What an arm loses at a rate to the best of its own cells and its rule's."""
    at, names = cells[name, rate], {name, RULES[ARMS[name].family]}
    others = [
        [at[seed] - cell[seed] for seed in at.keys() & cell.keys()]
        for key, cell in cells.items()
        if key[0] in names and key != (name, rate) and at.keys() & cell.keys()
    ]
    gaps = [(fmean(gap), of.half(len(gap), len(others))) for gap in others]
    low, high = (max([0.0, *(gap + sign * half for gap, half in gaps)]) for sign in (-1, 1))
    return Interval(max([0.0, *(g for g, _ in gaps)]), low, high if gaps else math.inf)


INTRO = """\
# Certificate: does the learning rate transfer, and does the test see a wrong rule?

{found}

Decoders with RMS norms and SwiGLU, made by `build`, are trained on bytes of Python's standard
library. A run has {steps} steps of {batch} windows of {window} bytes ({tokens:.2g} million tokens),
warm-up, a cosine to 0, no clipping and weight decay 0.1. Each arm tunes its learning rate at the
base, width × layers {base}, with two seeds and factors of 2. Larger models train at the base's best
rate. Muon trains the matrices of the branches. AdamW trains the rest at a fifth of that rate (in
standard practice: at the same rate). *Standard practice* draws with a standard deviation of 0.02,
divided by √(2N) for the last matrix of a branch, and has one rate. A *wrong rule* is the rule's
table with other gains or rates. All rules agree at the base. A wrong rule has no row if its numbers
are the rule's.

- *Distance*: how far rate and initial size of the branch matrices are from the rule's, in factors
  of 2 (root mean square). Within a size and a family, rows are sorted by distance.
- *Expected*: the best rate, relative to the base's. Distance and expected come from the tables
  alone.
- *Regret*: the loss at the base's best rate minus the lowest loss at that size, in nats a byte. The
  95 % interval is corrected for the number of rates tried.
- *Verdict*: SUPPORTED if the interval is below the margin, REFUTED if it is above. The margin is
  the loss of a rate that is off by √2 (a quarter of the loss of a factor 2 at the base).

Made by `python benchmarks/certificate.py`.

| arm | width × layers | distance (factors of 2) | expected (base = 1) | validation loss (nats a \
byte) at rate / base's best | regret (nats a byte) | verdict |
|---|---|---|---|---|---|---|
"""
NOT_RUN = (
    "This page is a forecast: no run was made. The table says which rules are expected to "
    "lose, and in which order."
)


def curve(cells: Cells, name: str, unit: float) -> dict[float, float]:
    """An arm's mean losses by rate, in units of one."""
    rates = sorted(rate for arm, rate in cells if arm == name)
    return {rate / unit: fmean(cells[name, rate].values()) for rate in rates}


def told(losses: Mapping[float, float]) -> str:
    return "; ".join(f"{rate:.3g}: {loss:.3f}" for rate, loss in losses.items()) or "–"


def page(record: Record) -> tuple[str, Figure]:
    """The page; and its figure, loss over rate of the arms that are tuned, at every size."""
    form, tables = FORMS[record.made["form"]], defaultdict[Any, Any](lambda: defaultdict(dict))
    for run, loss in record.losses.items():
        tables[ARMS[run.arm].family, run.size][run.arm, run.rate][run.seed] = loss
    of = scatter([cells for (_, size), cells in tables.items() if size != form.base])
    if of.freedom < ENOUGH:
        of = scatter([tables[family, form.base] for family in RULES])
    best = {arm.name: found for arm in ALL if (found := tuned(arm, form, record.losses)[0])}
    costs = {}  # of a rate that is off by a factor 2, at the base
    for family, name in RULES.items():
        if name in best:
            near = curve(tables[family, form.base], name, best[name])
            low, least, high = (near.get(times, math.nan) for times in (0.5, 1.0, 2.0))
            costs[family] = (low + high) / 2 - least
    lines, verdicts, order = [], defaultdict[str, set[Verdict]](set), []
    rows = [(arm, size, *rivals.forecast(arm, size, form)) for size, arm in product(form[1:4], ALL)]
    rows.sort(key=lambda row: (form.index(row[1]), [*RULES].index(row[0].family), row[3]))
    for arm, size, expected, distance in rows:
        if arm.name in WRONG and distance < 1e-9:
            continue
        cells, rate = tables[arm.family, size], best.get(arm.name, 1.0)
        cell = [arm.name, f"{size[0]} × {size[1]}", f"{distance:.2f}", f"{expected:.2f}"]
        cell += [told(curve(cells, arm.name, rate)), "–", "–"]
        if (arm.name, rate) in cells and arm.family in costs:
            lost = regret(arm.name, rate, cells, of)
            verdict = lost.verdict(0.0, costs[arm.family] / 4)
            verdicts[arm.name].add(verdict)
            cell[-2:] = f"{lost.estimate:.3f} ({lost.low:.3f} to {lost.high:.3f})", str(verdict)
            order += [(distance, lost.estimate)] * (arm.family == ALL[0].family)
        lines.append(f"| {' | '.join(cell)} |")
    found = NOT_RUN
    if order:
        refuted = sum(Verdict.REFUTED in verdicts[name] for name in WRONG)
        family, tried = ALL[0].family, sum(bool(verdicts[name]) for name in WRONG)
        critical = stdtrit(of.freedom, 1 - 0.025 / 3)
        power = stdtr(of.freedom, costs[family] * 0.75 / of.s - critical)
        found = (
            f"The verdicts of the rule are: {', '.join(sorted(verdicts[RULE]))}. {refuted} of "
            f"{tried} wrong rules were REFUTED at some size. Rules that are further from the rule "
            f"lose more: the rank correlation is {spearmanr(order).statistic:.2f} over "
            f"{len(order)} rows.\n\nThe power is {power:.2f}: the probability that a rule is "
            f"REFUTED whose rates are all off by a factor 2, with two seeds and three other cells. "
            f"That factor costs {costs[family]:.3f} nats a byte at the base. The standard "
            f"deviation of one run is {of.s:.3f} ({of.freedom} degrees of freedom)."
        )
    text = INTRO.format(**form._asdict(), tokens=math.prod(form[4:]) / 1e6, found=found)
    text += "\n".join(lines)
    text += "\n\n## At the base\n\n| arm | best learning rate | validation loss (nats a byte) "
    text += "at each rate |\n|---|---|---|\n"
    for arm in (arm for arm in ALL if arm.start):
        at = curve(tables[arm.family, form.base], arm.name, 1.0)
        text += f"| {arm.name} | {best.get(arm.name, '–')} | {told(at)} |\n"
    seconds = sum(map(sum, record.seconds.values()))
    made = ", ".join(f"{what} {which}" for what, which in record.made.items())
    text += f"\n{len(record.losses)} runs, {seconds:.0f} s in all; {made}.\n"
    panels = []
    for name in (RULE, STANDARD, MUON, POST):
        if name not in best:
            continue
        curves = [curve(tables[ARMS[name].family, s], name, best[name]) for s in form[:4]]
        series = [
            Series(f"{size[0]} × {size[1]}", tuple(Mark(x, y, y, y) for x, y in points.items()),
                   tuple(points.items()), colour=colour)
            for colour, (size, points) in enumerate(zip(form, curves, strict=False)) if points
        ]  # fmt: skip
        panels.append((name, tuple(series)))
    x, y = "learning rate over the base's best", "validation loss"
    return text, Figure(tuple(panels), x, y, linear=True)


def main() -> None:
    """Run what is left, or write the page of what was run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--form", choices=FORMS, help="gpu on a GPU, else cpu")
    parser.add_argument("--minutes", type=float, default=8.0, help="of work, imports apart")
    parser.add_argument("--processes", type=whole(), help="4 on a GPU, else 1")
    parser.add_argument("--forecast", action="store_true", help="write the page before any run")
    parser.add_argument("--page", type=Path, help="write the page of these runs")
    parser.add_argument("-o", "--output", type=output)
    asked = parser.parse_args()
    if asked.page and not asked.page.is_file():
        parser.error(f"there is no file {asked.page}")
    if asked.forecast or asked.page:
        file = asked.output or PAGE
        made = {"form": asked.form} if asked.forecast and asked.form else None
        written, figure = page(Record(asked.page or Path("none"), made))
        if figure.panels:
            on_site = file.resolve().parent == PAGE.parent
            picture = (FIGURES if on_site else file.parent) / f"{file.stem}.svg"
            picture.write_text(drawn(figure).svg + "\n", encoding="utf-8")
            link = os.path.relpath(picture, file.parent)
            written += f"\n![Loss against learning rate, a panel an arm, a curve a size.]({link})\n"
        file.write_text(written, encoding="utf-8")
        return
    if asked.output is None:
        parser.error("say where the runs go: -o runs.jsonl")
    on_gpu = asked.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        parser.error("there is no GPU here: --device cpu")
    made = {
        "form": asked.form or ("gpu" if on_gpu else "cpu"),
        "on": torch.cuda.get_device_name() if on_gpu else "CPU",
        "torch": torch.__version__, "python": platform.python_version(),
        "text": rivals.text("cpu")[2],
    }  # fmt: skip
    until = BEGAN + 60 * asked.minutes - RESERVE
    work(Record(asked.output, made), asked.device, asked.processes or (4 if on_gpu else 1), until)


if __name__ == "__main__":
    main()
