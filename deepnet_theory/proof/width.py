r"""A table in width: a fact for each of its numbers.

A role is drawn on explicit matrices of several widths at the sizes that the table prints
(:mod:`~deepnet_theory.proof.explicit`), and each printed number is held against the slopes that
they show. In a table in both dimensions a number is first divided by what its rule in depth
multiplies it by, which has facts and steps of its own.

Source: derived here; the conditions as in :mod:`deepnet_theory.sizes.width`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from deepnet_theory.definitions.assumption import Assumption, assumption
from deepnet_theory.definitions.constants import FORWARD
from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.optimizer import above_floors
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.sublayer import Role, sublayer
from deepnet_theory.proof import explicit
from deepnet_theory.proof.derivation import SCHEMA, Derivation, derive
from deepnet_theory.proof.explicit import Drawn, Seen, Slope
from deepnet_theory.proof.facts import Fact, Shown, exactly, fact, told
from deepnet_theory.proof.witness import sizes
from deepnet_theory.sizes.equivalence import in_weights
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.sizes.update import FULL
from deepnet_theory.sizes.width import (
    HEAD,
    TIED,
    Scale,
    WidthRow,
    WidthTable,
)

SIZES = ("multiplier", "init", "gradient", "update", "action")
NUMBERS = (*SIZES, "rate", "epsilon", "decay", "coupled_decay")
AT_ONE = {"N": 1, "M": 1}  # the depths, where a table in both dimensions is drawn
MATRICES = "slopes on explicit matrices"


# ---- what explicit matrices show of a row ----


class OnWidths:
    """The roles of a table on explicit matrices, at the sizes that the table prints."""

    def __init__(self, table: WidthTable) -> None:
        self.table, self.optimizer = table, table.selection.the_optimizer
        self.full = table.alignment == FULL

    def tree(self, row: WidthRow) -> Any:
        """The update that a row takes: above its floors, and a library's for what is 0."""
        root = self.optimizer.expression.root
        if not row.place.starts_at_zero:
            return above_floors(root)
        return root if explicit.moves_zeros(root) else self.optimizer.from_zero.root

    def drawn(self, row: WidthRow, width: int, backward: float) -> Drawn:
        """The sizes of a row as numbers."""
        at = {**AT_ONE, "d": width}
        inputs, outputs = (round(n.at(**at)) for n in row.place.shape)
        start = None if row.init is None else row.init.at(**at)
        outputs = explicit.LOGITS if row.place.shape[1] == ONE else outputs
        c = (row.multiplier or ONE).at(**at)
        return Drawn(inputs, outputs, c, start, backward, row.place.is_table)

    def sent(self, head: WidthRow, width: int) -> float:
        """δ, what the head sends back to an entry of its input where a logit's gradient is 1."""
        return self.seen(head, self.drawn(head, width, 1.0)).back

    def seen(self, row: WidthRow, at: Drawn) -> Seen:
        practice = self.optimizer.practised.root
        return explicit.see(self.tree(row), practice, at, aligned=self.full)

    def slopes(self, row: WidthRow, head: WidthRow) -> dict[str, Slope]:
        """The slopes of a row's sizes behind a head."""

        def see_at(width: int) -> Seen:
            back = 1.0 if row.place.shape[1] == ONE else self.sent(head, width)
            return self.seen(row, self.drawn(row, width, back))

        return explicit.slopes(see_at)


def as_head(row: WidthRow) -> WidthRow:
    """A tied matrix as the head that reads its rows."""
    place = replace(row.place, role="head", kind=Role.HEAD, shape=HEAD)
    return replace(row, place=place)


class OfRow:
    """What is shown of each number of a row."""

    def __init__(self, on: OnWidths, row: WidthRow) -> None:
        self.on, self.row, self.table = on, row, on.table
        self.is_tied = row.role == TIED
        self.head = as_head(row) if self.is_tied else on.table.row("head")
        self.is_head = row.role == "head"
        plain = replace(row, multiplier=ONE) if self.is_tied else row  # as the embedding
        self.slopes = on.slopes(plain, self.head)

    def power(self, *of: tuple[str, float]) -> Slope | None:
        """The slope of a product of powers of sizes; None where one is 0 or not finite."""
        if any(name not in self.slopes for name, _ in of):
            return None
        return sum((self.slopes[n] * p for n, p in of), start=Slope(0.0, 0.0))

    def shown(self, slope: Slope | None) -> Shown:
        """A power of d that the slope tends to, with nothing beside it."""
        if slope is None:
            return exactly(None, "explicit matrices have no such size")

        def agrees(stated: Monomial | None) -> bool:
            return stated is not None and slope.tends_to(float(stated.exponent("d")))

        return Shown(agrees, MATRICES, f"d^{slope.far:.2f}")

    def numbers(self) -> dict[str, Shown]:
        """One for each number of the row; a number that is not named is not there."""
        row, place = self.row, self.row.place
        gauge = exactly(ONE, "a convention: W = c*W' is the same model")
        if row.multiplier is None:
            return {}
        shown = {"multiplier": gauge, "init": gauge}
        gauged = "init" if self.is_head and self.table.form == FORWARD else "multiplier"
        if self.is_head or self.is_tied:
            behind = self.slopes if self.is_head else self.on.slopes(self.head, self.head)
            read = self.flat(behind.get("read"), "what a move of the features makes of logits")
            shown["init" if self.is_head and gauged == "multiplier" else "multiplier"] = read
        if place.starts_at_zero:
            shown["init"] = exactly(None, "it starts at 0")
        elif not self.is_head:
            shown["init"] = self.flat(self.slopes.get("forward"), "what it puts out")
        if self.is_tied and row.refused is not None:
            return shown
        if place.kind is Role.KEY_BIAS:
            branch = sizes(self.table.selection.the_placement, sublayer(place.sublayer))
            idle = branch.responses[place.parameter] is None
            shown["gradient"] = told(row.gradient is None and idle, "explicit scores", "0")
            return shown | {"rate": exactly(ONE, "its gradient is 0, and its rate left alone")}
        shown["gradient"] = self.shown(self.power(("gradient", 1)))
        if row.refused is not None:
            return shown
        for name in ("update", "action", "epsilon"):
            shown[name] = self.shown(self.power((name, 1)))
        shown["rate"] = self.shown(self.power(("action", -1)))
        if place.is_matrix:
            shown["decay"] = self.shown(self.power(("action", 1)))
            shown["coupled_decay"] = self.shown(self.coupled())
        return shown

    def flat(self, slope: Slope | None, of: str) -> Shown:
        """Whether a size is of order one at every width, at the numbers that are printed."""
        holds = slope is not None and slope.tends_to(0.0)
        return told(holds, f"{MATRICES}: {of} is of order one", f"{slope and slope.far:.2f}")

    def coupled(self) -> Slope | None:
        """A decay in the gradient: a term of its own, or as large as g where its share is kept."""
        if explicit.is_linear(self.on.tree(self.row)):
            return self.power(("action", 1))
        if self.row.init is None:
            return None
        power = float(self.row.init.exponent("d"))
        start = Slope(-power, -power)
        share = self.power(("update", 1), ("action", -1))
        if share is None or not (share + start).tends_to(0.0):
            return None
        gradient = self.power(("gradient", 1))
        return gradient and gradient + start

    def refusal(self) -> Shown:
        """Whether a rate may be refused: what never moves, and one matrix of two rates."""
        row, action = self.row, self.slopes.get("action")
        if row.refused is None:
            return exactly(None, "explicit matrices show a rate")
        if row.multiplier is None:
            return told(self.table.form != FORWARD, "a tied head needs a multiplier", row.refused)
        if row.place.starts_at_zero and not explicit.moves_zeros(self.on.tree(row)):
            return told(True, "explicit zeros stay", row.refused)
        if self.is_tied and action is not None:
            as_read = self.on.slopes(self.head, self.head).get("action")
            apart = as_read is not None and not (action + as_read * -1).tends_to(0.0)
            return told(apart, "its rates as embedding and as head", row.refused)
        return Shown(None, "a law that is missing, which no matrix shows", row.refused)


def row_facts(table: WidthTable, depth: Derivation | None) -> Iterator[Fact]:
    """A fact for each number of each row, what comes of the depth divided out."""
    on = OnWidths(in_width(table, depth))
    pairs = zip(table.rows, on.table.rows, strict=True)
    known: dict[WidthRow, tuple[dict[str, Shown], Shown]] = {}
    for printed, row in pairs:
        place = row.place
        alike = replace(row, place=replace(place, part="", sublayer="", parameter=""))
        if alike not in known:
            of_row = OfRow(on, row)
            known[alike] = of_row.numbers(), of_row.refusal()
        shown, refused = known[alike]
        of = "/".join(filter(None, (place.part, place.sublayer, place.role)))
        for name in NUMBERS:
            seen = shown.get(name) or exactly(None, "it has none")
            stated, bare = getattr(printed, name), getattr(row, name)
            own = fact(f"{of}/{name}", bare, seen)
            alone = bare is None or bare.symbols <= {"d"}  # the rule in depth has the others
            yield replace(own, stated=_text(stated), holds=own.holds and alone)
        yield fact(f"{of}/refused", row.refused, refused)


def _text(size: Monomial | None) -> str | None:
    return None if size is None else str(size)


def in_width(table: WidthTable, depth: Derivation | None) -> WidthTable:
    """The table with the rule in depth divided out of its numbers."""
    if depth is None:
        return table
    times = in_depth(table, depth)

    def bare(row: WidthRow) -> WidthRow:
        numbers = ((name, getattr(row, name), by) for name, by in times(row).items())
        return replace(row, **{name: size / by for name, size, by in numbers if size is not None})

    return replace(table, rows=tuple(map(bare, table.rows)))


def in_depth(
    table: WidthTable, depth: Derivation | None
) -> Callable[[WidthRow], dict[str, Monomial]]:
    """What the rule in depth multiplies the numbers of a row by."""
    if depth is None:
        return lambda _: {}
    eta, known = parse(depth.rule.eta), {}
    moved = in_weights(table.selection) if table.form != FORWARD else {}
    for p in depth.parameters:
        by = moved.get((p.sublayer, p.parameter), {})
        alpha = parse(depth.rule.entry(p.part, p.sublayer).alpha)
        known[p.part, p.sublayer, p.parameter] = {
            "init": (p.size or ONE) * alpha ** by.get("gain", 0),
            "rate": eta * p.rate * alpha ** by.get("rate", 0),
            "epsilon": p.epsilon * alpha ** by.get("epsilon", 0),
            **dict.fromkeys(
                ("decay", "coupled_decay"),
                p.decay * alpha ** by.get("weight_decay", 0) if p.decay else ONE,
            ),
        }

    def times(row: WidthRow) -> dict[str, Monomial]:
        place = row.place.part, row.place.sublayer, row.place.parameter
        return known.get(place, {"rate": eta, "decay": ONE / eta, "coupled_decay": ONE / eta})

    return times


# ---- the table with its facts ----


@dataclass(frozen=True, repr=False)
class WidthDerivation(Displayed):
    """A table in width with its facts, and with the derivation in depth where it has one.

    ``scale`` says where numbers are printed, and which model they are multiples of.
    """

    table: WidthTable
    scale: Scale | None = None

    @cached_property
    def depth(self) -> Derivation | None:
        """The derivation in depth, of a table in both dimensions."""
        return derive(self.table.selection) if self.table.across != "width" else None

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The premises of the conditions, and of the depth."""
        of_moves = "aligned-with-inputs" if self.table.alignment == FULL else "independent-update"
        of_width = ("fresh-weights", "unit-activations", of_moves, "bounded-loss-gradient")
        of_depth = self.depth.assumptions if self.depth else ()
        return tuple(dict.fromkeys((*of_depth, *map(assumption, of_width))))

    @cached_property
    def measured(self) -> tuple[Fact, ...]:
        """A fact for every number that the table prints."""
        return tuple(row_facts(self.table, self.depth))

    @cached_property
    def verdict(self) -> Verdict:
        """PROVED (given the assumptions) where no fact differs, nor a step in depth."""
        verdicts = [fact.verdict for fact in self.measured]
        verdicts += [self.depth.verdict] if self.depth else []
        return Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.PROVED

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code

    @property
    def shown(self) -> str:
        """What has been shown, in words."""
        differ = [f for f in self.measured if f.verdict is Verdict.REFUTED]
        if self.verdict is Verdict.REFUTED:
            named = (f"{f.of} is {f.stated}, and was measured otherwise" for f in differ[:3])
            return "; ".join(named) or "a step fails its check"
        return (
            "the rates follow from the conditions, given the assumptions, and every size is what "
            "explicit matrices of several widths have"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        table, depth = self.table, self.depth
        return {
            "schema": SCHEMA,
            "select": table.selection.to_dict(),
            "across": table.across,
            "alignment": table.alignment,
            "form": table.form,
            "rule": [entry.to_dict() for entry in depth.rule.entries] if depth else [],
            "eta": depth.rule.eta if depth else "1",
            "closure": table.closure or None,
            "roles": [row.texts() for row in table.rows],
            "forced": list(table.forced),
            "conventions": list(table.conventions),
            "steps": depth.to_dict()["steps"] if depth else [],
            "assumptions": [{"name": a.name, "statement": a.statement} for a in self.assumptions],
            "measured": [one.to_dict() for one in self.measured],
            "verdict": self.verdict.value,
        }
