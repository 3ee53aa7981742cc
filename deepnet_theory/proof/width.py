r"""A table by role: a fact for each of its numbers.

A role is drawn on explicit matrices of several widths at the sizes that the table prints
(:mod:`~deepnet_theory.proof.explicit`), and each printed number is held against the slopes that
they show. In the batch the slopes are of matrices with noise (:mod:`~deepnet_theory.proof.batch`).
Each number is a product over what grows. Its power of the depth is compared with the rule in depth,
which has facts and steps of its own.

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
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import SHAPES
from deepnet_theory.definitions.sublayer import Role, sublayer
from deepnet_theory.proof import batch, explicit
from deepnet_theory.proof.derivation import SCHEMA, Derivation, derive
from deepnet_theory.proof.explicit import Drawn, Seen, Slope
from deepnet_theory.proof.facts import Fact, Shown, exactly, fact
from deepnet_theory.proof.witness import sizes
from deepnet_theory.sizes.batch import DOMINANT, POWERS, degree
from deepnet_theory.sizes.equivalence import in_weights
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.sizes.table import HEAD, Known, ParameterRow, Place
from deepnet_theory.sizes.update import FULL, LOW_RANK
from deepnet_theory.sizes.width import (
    NUMBERS,
    SHARED,
    SIZES,
    TIED,
    RoleTable,
    Scale,
    in_order,
    share,
    texts,
)

OVER_UPDATES = ("decay", "coupled_decay", "memory")  # as many, whatever share a role sees
AT_ONE = {"N": 1, "M": 1}  # the depths, where a table in both dimensions is drawn
MATRICES = "slopes on explicit matrices"
NONE = exactly(None, "it has none")
LEFT = exactly(ONE, "it is left alone")


# ---- what explicit matrices show of a row ----


def seen(table: RoleTable, row: ParameterRow, width: int, backward: float = 1.0) -> Seen:
    """The sizes of a row at a width, where the gradient of its outputs has the size δ."""
    at, fixed = {**AT_ONE, table.symbol: width}, explicit.LOGITS
    inputs, outputs = (fixed if n == ONE else round(n.at(**at)) for n in row.place.shape)
    inputs = 1 if row.place.is_table or not row.place.is_matrix else inputs  # a one-hot vector
    start = None if row.init is None else row.init.at(**at)
    c = (row.multiplier or ONE).at(**at)
    full = table.selection.rank != LOW_RANK
    drawn = Drawn(inputs, outputs, c, start, backward, full, row.place.is_table)
    practice = table.selection.the_optimizer.practised.root
    update = explicit.update_of(table.selection.the_optimizer, row.place.starts_at_zero)
    return explicit.see(update, practice, drawn, aligned=table.alignment == FULL)


def slopes(table: RoleTable, row: ParameterRow, reader: ParameterRow) -> dict[str, Slope]:
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

    def __init__(self, table: RoleTable, row: ParameterRow) -> None:
        self.table, self.row = table, row
        self.update = explicit.update_of(table.selection.the_optimizer, row.place.starts_at_zero)
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
            shown["gradient"] = Shown(row.gradient is None and idle, "explicit scores", "0")
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
        return Shown(holds, f"{MATRICES}: {of} is of order one", f"{slope and slope.far:.2f}")

    def coupled(self) -> Slope | None:
        """A decay in the gradient: a term of its own, or as large as g where its share is kept."""
        gradient, update, action = map(self.slopes.get, ("gradient", "update", "action"))
        if explicit.is_linear(self.update):
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
            return Shown(self.table.form != FORWARD, "a tied head needs a multiplier", row.refused)
        if row.place.starts_at_zero and not explicit.moves_zeros(self.update):
            return Shown(True, "explicit zeros stay", row.refused)
        if self.is_tied and action is not None:
            as_read = slopes(self.table, self.head, self.head).get("action")
            apart = as_read is not None and not (action + as_read * -1).tends_to(0.0)
            return Shown(apart, "its rates as embedding and as head", row.refused)
        return Shown(None, "a law that is missing, which no matrix shows", row.refused)


def row_facts(table: RoleTable, depth: Derivation | None) -> Iterator[Fact]:
    """A fact for each number of each row: the product of what its dimensions show.

    A product has none where one of its factors has none.
    """
    shares = {p.place.known: p.share for p in (depth.parameters if depth else ()) if p.exponent < 0}
    shown: dict[object, dict[str, Shown]] = {} if depth is None else dict(in_depth(table, depth))
    held = [of_share(r, share(table.across, r.place)) if table.batch else r for r in table.rows]
    whole_table = replace(table, rows=tuple(held))
    alone = [of_dimension(whole_table, name) for name in in_order(table.dimensions)]
    names = dict.fromkeys((*NUMBERS, *POWERS) if table.batch else NUMBERS)
    if table.across == "batch":
        names = dict.fromkeys(POWERS)
    for printed, row_held in zip(table.rows, held, strict=True):
        place, at = printed.place, printed.place.known
        rows = {one.across: row for one in alone for row in one.rows if row.place.known == at}
        each = []
        for one in (one for one in alone if one.across in rows):
            row = rows[one.across]
            anywhere = replace(row.place, part="", depth="", sublayer="")
            alike = one.across, replace(row, place=anywhere, share=None)
            if (key := at if one.across == "depth" else alike) not in shown:
                shown[key] = numbers(one, row)
            each.append((row, shown[key]))
        grown = rows if "batch" in rows else [name for name in rows if name in SHAPES]
        of = "/".join(filter(None, (place.part, place.sublayer, place.role, ",".join(grown))))
        for name in (*names, "refused"):
            stated = getattr(printed, name)
            facts = [fact("", getattr(row, name), by.get(name, NONE)) for row, by in each]
            decides = max if (stated is None) is (name != "refused") else min
            own = decides(facts, key=lambda one: (False, None, True).index(one.holds))
            sizes = [one.stated for one in facts]
            whole = name == "refused" or None in sizes
            whole = whole or math.prod(sizes, start=ONE) == getattr(row_held, name)
            found = ", ".join(dict.fromkeys(one.found for one in facts if one.found))
            own = replace(own, of=f"{of}/{name}", stated=_text(stated), found=found)
            yield own if whole else replace(own, holds=False)
        if table.across != "batch":
            starved = exactly(_text(shares.get(at)), "its share in depth")
            yield fact(f"{of}/starved", _text(printed.starved), starved)


def numbers(of: RoleTable, row: ParameterRow) -> dict[str, Shown]:
    """What is shown of a row in one dimension, which leaves its other numbers alone."""
    if of.across == "batch":
        shown = batch.numbers(row, of.selection.the_optimizer, of.gradient_noise)
        return dict.fromkeys(SIZES, LEFT) | shown
    shown = OfRow(of, row).numbers()
    return {"memory": LEFT, "memory_rate": shown.get("rate", NONE), **shown}


def of_share(row: ParameterRow, seen: Monomial) -> ParameterRow:
    """A row where B is the role's share of the batch, which takes as many updates."""
    sizes = {name: getattr(row, name) for name in POWERS}
    sizes["memory_rate"] = sizes["memory_rate"] and row.rate
    powers = {n: s.exponent("B") - (n in OVER_UPDATES) for n, s in sizes.items() if s}
    shared = {name: getattr(row, name) / seen**power for name, power in powers.items()}
    return replace(row, **shared)


def of_dimension(table: RoleTable, name: str) -> RoleTable:
    """The roles that grow in a dimension, with their shapes and the powers of its own symbols."""
    rows = {row.place.known: row for row in table.rows}
    of = {"d": "width", "B": "batch", **{x: shape for shape, x in SHAPES.items()}}

    def own(place: Place) -> ParameterRow:
        sizes: dict[str, Any] = {n: getattr(rows[place.known], n) for n in (*SIZES, *POWERS)}
        for n, size in ((n, size) for n, size in sizes.items() if size):
            powers = (item for item in size.items if of.get(item[0], "depth") == name)
            sizes[n] = Monomial(tuple(powers))
        return replace(rows[place.known], place=place, **sizes)

    alike = (row.place for row in table.rows)  # the batch grows every role, whatever its shape
    places = alike if name == "batch" else table.places(name)
    return replace(table, across=name, rows=tuple(map(own, places)))


def in_depth(table: RoleTable, depth: Derivation) -> Iterator[tuple[Known, dict[str, Shown]]]:
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
        times |= {"memory": ONE, "memory_rate": times["rate"]}
        shown = {name: exactly(size, "the rule in depth") for name, size in times.items()}
        yield at, {n: replace(s, found="") if times[n] == ONE else s for n, s in shown.items()}


def _text(size: Monomial | None) -> str | None:
    return None if size is None else str(size)


# ---- the table with its facts ----


@dataclass(frozen=True, repr=False)
class RoleDerivation(Displayed):
    """A table by role with its facts, and with the derivation in depth where it has one.

    ``scale`` says where numbers are printed, and which model they are multiples of.
    """

    table: RoleTable
    scale: Scale | None = None
    layers: tuple[tuple[str, int], ...] = ()
    curved: bool = False

    @cached_property
    def depth(self) -> Derivation | None:
        """The derivation in depth, of a table that has it."""
        if "depth" not in self.table.dimensions:
            return None
        deep = derive(self.table.selection)
        return deep.at(**dict(self.layers)) if self.layers else deep

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The premises of the conditions, and of the depth."""
        names: list[str] = []
        if self.table.in_width:
            moves = "aligned-with-inputs" if self.table.alignment == FULL else "independent-update"
            names += ["fresh-weights", "unit-activations", moves, "bounded-loss-gradient"]
        if self.table.batch:
            regime = "noise" if self.table.gradient_noise == DOMINANT else "signal"
            names += ["independent-samples", f"{regime}-dominated"]
        of_depth = self.depth.assumptions if self.depth else ()
        return tuple(dict.fromkeys((*of_depth, *map(assumption, names))))

    @cached_property
    def update(self) -> Node:
        """The update of a matrix that is at no floor."""
        return explicit.update_of(self.table.selection.the_optimizer)

    @cached_property
    def curve(self) -> dict[float, float]:
        """The best rate over that without noise, by B/B_noise, where it was asked for."""
        if not self.curved:
            return {}
        p, _ = degree(self.table.selection.the_optimizer, self.table.gradient_noise, False)
        return {ratio: (1 + 1 / ratio) ** (-(1 + p) / 2) for ratio in batch.RATIOS}

    @property
    def premise(self) -> str:
        """The gradients that the curve is of: any, under an update that is linear in g."""
        return "any gradient" if explicit.is_additive(self.update) else "a gradient like its noise"

    @cached_property
    def measured(self) -> tuple[Fact, ...]:
        """A fact for every number that is printed."""
        table, depth = self.table, self.depth
        alone = table.batch if table.batch and table.across != "batch" else None
        return (
            *(depth.measured if depth else ()),
            *row_facts(table, depth),
            *(row_facts(alone, None) if alone else ()),
            *batch.curve_facts(self.update, self.curve),
        )

    @cached_property
    def verdict(self) -> Verdict:
        """PROVED (given the assumptions) where no fact differs, nor a step in depth."""
        verdicts = [one.verdict for one in (*self.measured, self.depth) if one]
        return Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.PROVED

    @property
    def shown(self) -> str:
        """What has been shown, in words."""
        if self.verdict is Verdict.REFUTED:
            differ = [f for f in self.measured if f.verdict is Verdict.REFUTED]
            named = (f"{f.of} is {f.stated}, and was measured as {f.found}" for f in differ[:3])
            return "; ".join(named) or "a step fails its check"
        matrices = ["explicit matrices of several widths"] * self.table.in_width
        matrices += ["explicit matrices with noise"] * bool(self.table.batch)
        own = (f for f in self.measured if "batch/" in f.of and f.holds is None)
        aside = ", ".join({f.of.rpartition("/")[2]: 0 for f in own})
        return (
            "the powers follow from the conditions, given the assumptions, and "
            f"{' and '.join(matrices)} show them{f' (not decided there: {aside})' if aside else ''}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        table = self.table
        data: dict[str, Any] = {"schema": SCHEMA, "select": table.selection.to_dict()}
        data |= {"rule": [], "eta": "1", "closure": None, "steps": []}
        data |= self.depth.to_dict() if self.depth else {}
        data |= {
            "across": table.across,
            "alignment": table.alignment,
            "form": table.form,
            "forced": list(table.forced),
            "conventions": list(table.conventions),
            "assumptions": [{"name": a.name, "statement": a.statement} for a in self.assumptions],
            "measured": [one.to_dict() for one in self.measured],
            "verdict": self.verdict.value,
        }
        if table.across != "batch":
            data["roles"] = [texts(row) for row in table.rows]
        if table.batch:
            roles = [row.told(*POWERS) for row in table.batch.rows]
            data["batch"] = {"gradient_noise": table.gradient_noise, "roles": roles}
        if self.curved:
            points = [{"batch": ratio, "rate": rate} for ratio, rate in self.curve.items()]
            data["curve"] = {"closed": True, "premise": self.premise, "points": points}
        return data
