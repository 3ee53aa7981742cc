r"""A table in width: a fact for each of its numbers.

A role is drawn on explicit matrices of several widths at the sizes that the table prints
(:mod:`~deepnet_theory.proof.explicit`), and each printed number is held against the slopes that
they show. In a table in both dimensions a number is first divided by what its rule in depth
multiplies it by, which has facts and steps of its own.

Source: derived here; the conditions as in :mod:`deepnet_theory.sizes.width`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from deepnet_theory.definitions.assumption import Assumption, assumption
from deepnet_theory.definitions.constants import FORWARD
from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.expression import Node
from deepnet_theory.definitions.optimizer import above_floors
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import SHAPES
from deepnet_theory.definitions.sublayer import Role, sublayer
from deepnet_theory.proof import explicit
from deepnet_theory.proof.derivation import SCHEMA, Derivation, derive
from deepnet_theory.proof.explicit import Drawn, Seen, Slope
from deepnet_theory.proof.facts import Fact, Shown, exactly, fact, told
from deepnet_theory.proof.witness import sizes
from deepnet_theory.sizes.batch import BatchTable
from deepnet_theory.sizes.equivalence import in_weights
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.sizes.table import HEAD, Known, ParameterRow, Place
from deepnet_theory.sizes.update import FULL, LOW_RANK
from deepnet_theory.sizes.width import NUMBERS, SHARED, TIED, Scale, WidthTable, texts

AT_ONE = {"N": 1, "M": 1}  # the depths, where a table in both dimensions is drawn
MATRICES = "slopes on explicit matrices"
NONE = exactly(None, "it has none")


# ---- what explicit matrices show of a row ----


def update_of(table: WidthTable | BatchTable, row: ParameterRow) -> Node:
    """The update that a row takes: above its floors, and a library's for what is 0."""
    optimizer = table.selection.the_optimizer
    root = optimizer.expression.root
    if not row.place.starts_at_zero:
        return above_floors(root)
    return root if explicit.moves_zeros(root) else optimizer.from_zero.root


def seen(table: WidthTable, row: ParameterRow, width: int, backward: float = 1.0) -> Seen:
    """The sizes of a row at a width, where the gradient of its outputs has the size δ."""
    at, fixed = {**AT_ONE, table.symbol: width}, explicit.LOGITS
    inputs, outputs = (fixed if n == ONE else round(n.at(**at)) for n in row.place.shape)
    inputs = 1 if row.place.is_table or not row.place.is_matrix else inputs  # a one-hot vector
    start = None if row.init is None else row.init.at(**at)
    c = (row.multiplier or ONE).at(**at)
    full = table.selection.rank != LOW_RANK
    drawn = Drawn(inputs, outputs, c, start, backward, full, row.place.is_table)
    practice = table.selection.the_optimizer.practised.root
    return explicit.see(update_of(table, row), practice, drawn, aligned=table.alignment == FULL)


def slopes(table: WidthTable, row: ParameterRow, reader: ParameterRow) -> dict[str, Slope]:
    """The slopes of a row's sizes behind what reads its outputs, and sends δ back."""

    def back(width: int) -> float:
        if table.across == "kv-heads":
            return explicit.of_group(width, aligned=table.alignment == FULL)
        if table.across == "top-k":
            size = reader.init.at(**{table.symbol: width}) if reader.init else 0.0
            c = (row.multiplier or ONE).at(**{table.symbol: width})
            return explicit.routed(width)[0] * (size if row.place.averaged == ONE else 1 / c)
        if table.across in SHARED:
            return explicit.of_one(width)
        return 1.0 if row.place.shape[1] == ONE else seen(table, reader, width).back

    return explicit.slopes(lambda width: seen(table, row, width, back(width)))


class OfRow:
    """What is shown of each number of a row."""

    def __init__(self, table: WidthTable, row: ParameterRow) -> None:
        self.table, self.row = table, row
        alone = table.across in ("kv-heads", "vocab", "experts")  # what reads them is as it was
        self.head = head = row if alone else table.reader(row.place)
        if head.init is None and head.update and head.rate:  # after its first step
            self.head = replace(head, init=head.update * head.rate)
        self.is_tied, self.reads = row.role == TIED and row.place.is_table, row.place.reads
        if self.is_tied:  # the matrix as the head that reads its rows, and as the embedding
            place = replace(row.place, parameter="head", kind=Role.HEAD, shape=HEAD)
            self.head, row = replace(row, place=place), replace(row, multiplier=ONE)
        self.slopes = slopes(table, row, self.head)

    def shown(self, slope: Slope | None) -> Shown:
        """A power of d that the slope tends to, with nothing beside it."""
        if slope is None:
            return exactly(None, "explicit matrices have no such size")

        def agrees(stated: Monomial | None) -> bool:
            return stated is not None and slope.tends_to(float(stated.exponent(symbol)))

        symbol = self.table.symbol
        return Shown(agrees, MATRICES, f"{symbol}^{slope.far:.2f}")

    def numbers(self) -> dict[str, Shown]:
        """One for each number of the row; a number that is not named is not there."""
        row, place = self.row, self.row.place
        gauge = exactly(ONE, "a convention: W = c*W' is the same model")
        shown = {"refused": self.refusal()}
        if row.multiplier is None:
            return shown
        if place.averaged != ONE:
            aligned = self.table.alignment == FULL
            mixed = explicit.slope({k: explicit.routed(k, aligned)[1] for k in explicit.WIDTHS})
            gauge = self.shown(Slope(mixed, mixed))
        shown |= {"multiplier": gauge, "init": gauge}
        if place.starts_at_zero:
            shown["init"] = exactly(None, "it starts at 0")
        elif not self.reads:
            shown["init"] = self.flat(self.slopes.get("forward"), "what it puts out")
        if self.is_tied or (self.reads and not place.starts_at_zero):
            behind = self.slopes if self.reads else slopes(self.table, self.head, self.head)
            read = self.flat(behind.get("read"), "what a move of its inputs makes of its outputs")
            of_init = self.reads and (row.role, self.table.form) != ("head", FORWARD)
            shown["init" if of_init else "multiplier"] = read
        if self.is_tied and row.refused is not None:
            return shown
        if place.kind is Role.KEY_BIAS:
            branch = sizes(self.table.selection.the_placement, sublayer(place.sublayer))
            idle = branch.responses[place.parameter] is None
            shown["gradient"] = told(row.gradient is None and idle, "explicit scores", "0")
            return shown | {"rate": exactly(ONE, "its gradient is 0, and its rate left alone")}
        shown["gradient"] = self.shown(self.slopes.get("gradient"))
        if row.refused is not None:
            return shown
        for name in ("update", "action", "epsilon"):
            shown[name] = self.shown(self.slopes.get(name))
        action = self.slopes.get("action")
        shown["rate"] = self.shown(action and action * -1)
        if place.is_matrix:
            shown["decay"] = self.shown(action)
            shown["coupled_decay"] = self.shown(self.coupled())
        return shown

    def flat(self, slope: Slope | None, of: str) -> Shown:
        """Whether a size is of order one at every width, at the numbers that are printed."""
        holds = slope is not None and slope.tends_to(0.0)
        return told(holds, f"{MATRICES}: {of} is of order one", f"{slope and slope.far:.2f}")

    def coupled(self) -> Slope | None:
        """A decay in the gradient: a term of its own, or as large as g where its share is kept."""
        gradient, update, action = map(self.slopes.get, ("gradient", "update", "action"))
        if explicit.is_linear(update_of(self.table, self.row)):
            return action
        if self.row.init is None or not (gradient and update and action):
            return None
        power = float(self.row.init.exponent(self.table.symbol))
        start = Slope(-power, -power)
        kept = (update + action * -1 + start).tends_to(0.0)
        return gradient + start if kept else None

    def refusal(self) -> Shown:
        """Whether a rate may be refused: what never moves, and one matrix of two rates."""
        row, action = self.row, self.slopes.get("action")
        if row.refused is None:
            return exactly(None, "explicit matrices show a rate")
        if row.multiplier is None:
            return told(self.table.form != FORWARD, "a tied head needs a multiplier", row.refused)
        if row.place.starts_at_zero and not explicit.moves_zeros(update_of(self.table, row)):
            return told(True, "explicit zeros stay", row.refused)
        if self.is_tied and action is not None:
            as_read = slopes(self.table, self.head, self.head).get("action")
            apart = as_read is not None and not (action + as_read * -1).tends_to(0.0)
            return told(apart, "its rates as embedding and as head", row.refused)
        return Shown(None, "a law that is missing, which no matrix shows", row.refused)


def row_facts(table: WidthTable, depth: Derivation | None) -> Iterator[Fact]:
    """A fact for each number of each row: the product of what its dimensions show.

    A product has none where one of its factors has none.
    """
    shares = {p.place.known: p.share for p in (depth.parameters if depth else ()) if p.exponent < 0}
    shown: dict[object, dict[str, Shown]] = {} if depth is None else dict(in_depth(table, depth))
    alone = [of_dimension(table, n) for n in sorted(table.dimensions, key="depth".__eq__)]
    for printed in table.rows:
        place, at = printed.place, printed.place.known
        rows = {one.across: row for one in alone for row in one.rows if row.place.known == at}
        each = []
        for one in (one for one in alone if one.across in rows):
            row = rows[one.across]
            anywhere = replace(row.place, part="", depth="", sublayer="")
            alike = one.across, replace(row, place=anywhere, share=None)
            if (key := at if one.across == "depth" else alike) not in shown:
                shown[key] = OfRow(one, row).numbers()
            each.append((row, shown[key]))
        grown = ",".join(name for name in rows if name in SHAPES)
        of = "/".join(filter(None, (place.part, place.sublayer, place.role, grown)))
        for name in (*NUMBERS, "refused"):
            stated = getattr(printed, name)
            facts = [fact("", getattr(row, name), by.get(name, NONE)) for row, by in each]
            decides = max if (stated is None) is (name != "refused") else min
            own = decides(facts, key=lambda one: (False, None, True).index(one.holds))
            sizes = [one.stated for one in facts]
            whole = name == "refused" or None in sizes or math.prod(sizes, start=ONE) == stated
            found = ", ".join(dict.fromkeys(one.found for one in facts if one.found))
            own = replace(own, of=f"{of}/{name}", stated=_text(stated), found=found)
            yield own if whole else replace(own, holds=False)
        starved = exactly(_text(shares.get(at)), "its share in depth")
        yield fact(f"{of}/starved", _text(printed.starved), starved)


def of_dimension(table: WidthTable, name: str) -> WidthTable:
    """The roles that grow in a dimension, with their shapes and the powers of its own symbols."""
    rows = {row.place.known: row for row in table.rows}
    of = {"d": "width", **{x: shape for shape, x in SHAPES.items()}}

    def own(place: Place) -> ParameterRow:
        sizes: dict[str, Any] = {n: getattr(rows[place.known], n) for n in NUMBERS}
        for n, size in ((n, size) for n, size in sizes.items() if size):
            powers = (item for item in size.items if of.get(item[0], "depth") == name)
            sizes[n] = Monomial(tuple(powers))
        return replace(rows[place.known], place=place, **sizes)

    return replace(table, across=name, rows=tuple(map(own, table.places(name))))


def in_depth(table: WidthTable, depth: Derivation) -> Iterator[tuple[Known, dict[str, Shown]]]:
    """What the rule in depth multiplies each role's numbers by; it has facts of its own."""
    eta, known = parse(depth.rule.eta), {row.place.known: row for row in depth.parameters}
    moved = in_weights(table.selection) if table.form != FORWARD else {}
    for at in (place.known for place in table.places("depth")):
        times = dict.fromkeys(NUMBERS, ONE) | {"rate": eta, "decay": ONE / eta}
        if p := known.get(at):
            by, alpha = moved.get(at[1:], {}), parse(depth.rule.entry(*at[:2]).alpha)
            sizes = {"gain": p.init, "rate": eta * (p.rate or ONE), "epsilon": p.epsilon}
            sizes["weight_decay"] = p.decay
            for name, knob in zip(("init", "rate", "epsilon", "decay"), sizes, strict=True):
                size = sizes[knob]
                times[name] = size * alpha ** by.get(knob, 0) if size else ONE
        times["coupled_decay"] = times["decay"]
        shown = {name: exactly(size, "the rule in depth") for name, size in times.items()}
        yield at, {n: replace(s, found="") if times[n] == ONE else s for n, s in shown.items()}


def _text(size: Monomial | None) -> str | None:
    return None if size is None else str(size)


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
        return derive(self.table.selection) if "depth" in self.table.dimensions else None

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
            "closure": depth.closure if depth else None,
            "roles": [texts(row) for row in table.rows],
            "forced": list(table.forced),
            "conventions": list(table.conventions),
            "steps": depth.to_dict()["steps"] if depth else [],
            "assumptions": [{"name": a.name, "statement": a.statement} for a in self.assumptions],
            "measured": [one.to_dict() for one in self.measured],
            "verdict": self.verdict.value,
        }
