r"""A table in width with its proof: conditions, sizes of updates, and the rates that follow.

The conditions are imposed, the sizes are measured on explicit matrices of several widths
(:mod:`~deepnet_theory.proof.widths`), and what follows is proved: all of it is monomials,
so that a relation follows from others where its exponents are a combination of theirs. Rows of one
shape and one start share their steps. Every number of the table must be the one that the steps end
in; of a table in both dimensions, times what its rule in depth multiplies it by.

Source: derived here; the conditions as in :mod:`deepnet_theory.sizes.width`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import sympy as sp

from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.expression import Node
from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.proof import widths
from deepnet_theory.proof.algebra import exponents, from_plain, plain, solve
from deepnet_theory.proof.derivation import (
    SCHEMA,
    Chain,
    Derivation,
    Meaning,
    derive,
    symbols_of,
)
from deepnet_theory.proof.step import Check, Relation, Step
from deepnet_theory.sizes.equivalence import in_weights
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.sizes.update import (
    FULL,
    GRADIENT,
    HALF,
    INPUTS,
    LOW_RANK,
    PARAMETER,
    counts,
    epsilon,
    law,
)
from deepnet_theory.sizes.update import Step as SizeOfStep
from deepnet_theory.sizes.update import step as size_of_step
from deepnet_theory.sizes.width import (
    COLUMN,
    FORWARD,
    HEAD,
    SQUARE,
    TIED,
    Scale,
    WidthRow,
    WidthTable,
)

d, k, delta = sp.symbols("d k delta", positive=True)
one = sp.Integer(1)
ASKED = sp.Symbol("asked", positive=True)
SYMBOLS = {  # of the numbers of a row
    "multiplier": "c",
    "init": "sigma",
    "gradient": "gamma",
    "update": "u",
    "action": "a",
    "rate": "eta",
    "epsilon": "epsilon",
    "decay": "omega",
    "coupled_decay": "mu",
}
NAMES = {  # of rows that share their steps, by their shape and whether they start at 0
    (COLUMN, False): ("vector", "embeddings and gains"),
    (COLUMN, True): ("bias", "biases"),
    (SQUARE, False): ("hidden", "matrices within a branch"),
    (HEAD, False): ("head", "the head"),
    ((ONE, ONE), True): ("headbias", "the head's bias"),
}
TABLE = ("table", "embeddings, of a row a token")
BLOCKS = ("block", "query, key and value, where the update steps each head by itself")


@dataclass(frozen=True)
class WidthStep(Step):
    """A step in width; ``measured`` where a number on explicit matrices checks it."""

    measured: bool = False

    def check(self) -> Verdict:
        verdict = super().check()
        return Verdict.MEASURED if self.measured and verdict is Verdict.PROVED else verdict


@dataclass(frozen=True)
class Group:
    """Rows of one shape that start alike, and so share their steps."""

    name: str
    words: str
    rows: tuple[WidthRow, ...]
    shape: tuple[Monomial, Monomial]
    counts: tuple[Monomial, Monomial]  # n_in and n_out of what an update sees
    starts_at_zero: bool
    is_block: bool  # a head's part of a matrix
    is_table: bool  # of a row a token

    @property
    def draws(self) -> bool:
        """Whether it has an initial size of its own."""
        return not self.starts_at_zero and not self.is_block

    def __call__(self, what: str) -> sp.Symbol:
        """The symbol of a size; a head's block is a part of a matrix within a branch."""
        shared = self.is_block and what in ("multiplier", "init", "gradient")
        return sp.Symbol(f"{SYMBOLS[what]}_{'hidden' if shared else self.name}", positive=True)


def groups(table: WidthTable) -> dict[str, Group]:
    """The rows by what they share; the tied head and the key bias have steps of their own."""
    shared: dict[tuple[str, str], list[WidthRow]] = {}
    # what counts rows tells a table, whose rows are tokens, from a gain
    tells = table.selection.the_optimizer.expression.functions & {"rows", "columns", "blocks"}
    for row in table.rows:
        if row.role != TIED and row.place.kind is not Role.KEY_BIAS:
            shape = NAMES[row.place.shape, row.place.starts_at_zero]
            shared.setdefault(TABLE if tells and row.place.is_table else shape, []).append(row)
    if table.blocks:
        shared[BLOCKS] = list(table.blocks)
    made = {}
    for (name, words), rows in shared.items():
        place = rows[0].place
        of_update, is_block = place.block or place.shape, place.block is not None
        shapes = place.shape, of_update
        kind = place.starts_at_zero, is_block, name == TABLE[0]
        made[name] = Group(name, words, tuple(rows), *shapes, *kind)
    return made


# ---- monomials, here and there ----


def expression(size: Monomial, values: Mapping[str, sp.Expr] | None = None) -> sp.Expr:
    """A monomial as SymPy has it, numbers left out, with values in place of its symbols."""
    return from_plain(size.without_number, {"d": d, "k": k, **(values or {})})


def solved(rows: Iterable[Step], *more: tuple[sp.Expr, sp.Expr]) -> dict[sp.Symbol, sp.Expr]:
    """What monomial relations, and more of them, make of their symbols, in d and k."""
    equations = [*((row.lhs, row.rhs) for row in rows if row.rhs != 0), *more]
    free = {s for sides in equations for side in sides for s in sp.sympify(side).free_symbols}
    # what is asked for stands last: elimination leaves it alone where the others do not fix it
    unknown = sorted(free - {d, k}, key=lambda s: (s == ASKED, str(s)))
    return solve(equations, unknown) or {}


def value_by(rows: Iterable[Step], asked: sp.Expr) -> sp.Expr | None:
    return solved(rows, (ASKED, asked)).get(ASKED)


def needed(asked: sp.Expr, rows: Sequence[Step]) -> tuple[Step, ...]:
    """The relations that an expression in d and k is a product of powers of; all if it is none."""
    columns = [exponents(row.lhs / row.rhs) for row in rows] + [exponents(asked)]
    symbols = sorted({s for column in columns for s in column}, key=str)
    system = sp.Matrix([[column.get(s, sp.Integer(0)) for column in columns] for s in symbols])
    reduced, pivots = system.rref()
    if len(rows) in pivots:
        return tuple(rows)
    return tuple(rows[p] for line, p in enumerate(pivots) if reduced[line, len(rows)] != 0)


# ---- the steps ----


class Proof:
    """The steps of a table; a check of one asks for what all of them make of a symbol."""

    def __init__(self, table: WidthTable) -> None:
        self.table, self.optimizer = table, table.selection.the_optimizer
        self.full = table.alignment == FULL
        self.premise = ("aligned-with-inputs" if self.full else "independent-update",)
        self.terms = d if self.full else sp.sqrt(d)  # of a head's sum, as it grows
        self.groups = groups(table)
        self.head, self.hidden = self.groups["head"], self.groups["hidden"]
        self.whole = [group for group in self.groups.values() if not group.is_block]
        self.laws: dict[str, SizeOfStep] = {}
        self.steps: list[WidthStep] = []
        self.section = ""
        self._slopes: dict[str, dict[str, dict[str, widths.Slope]]] = {}

    def all(self) -> tuple[WidthStep, ...]:
        """Every step, in order."""
        for section, make in (
            ("Sizes at the start", self.start),
            ("Sizes of the gradients", self.gradients),
            ("One update", self.updates),
            ("Learning rates", self.rates),
            ("By the loss, and in every gauge", self.confirm),
            ("Epsilon and weight decay", self.constants),
            ("A tied head", self.tied),
        ):
            self.section = section
            make()
        return tuple(self.steps)

    def start(self) -> None:
        """(F), (H) and the gauge."""
        for group in self.whole:
            if group.draws and group is not self.head:
                self.impose(
                    f"forward-{group.name}",
                    group("multiplier") * group("init") * expression(group.counts[0] ** HALF),
                    f"(F) {group.words}: what they put out is of order one at the start, a sum of "
                    "n_in independent terms",
                    self.slope(group, "forward", one),
                    assumptions=("fresh-weights", "unit-activations"),
                )
        self.impose(
            "read-out",
            self.terms * self.head("multiplier") * self.head("init"),
            "(H) a move of the features by order one moves the logits by order one: it is "
            + ("along the head's rows, so that d terms add" if self.full else "not along its rows"),
            self.slope(self.head, "read", one),
            assumptions=self.premise,
        )
        for group in self.whole:
            forward = group is self.head and self.table.form == FORWARD
            self.impose(
                f"gauge-{group.name}",
                group("init" if forward else "multiplier"),
                f"a convention, {group.words}: W = c*W' is the same model",
            )

    def gradients(self) -> None:
        """δ and γ."""
        self.add(
            "backward",
            delta,
            self.head("multiplier") * self.head("init"),
            "what the head sends back, a sum over its few outputs; a matrix within a branch keeps "
            "the size backward as forward",
            checks=(self.slope(self.head, "back"), self.slope(self.hidden, "back", one)),
            assumptions=("fresh-weights", "bounded-loss-gradient"),
            measured=True,
        )
        for group in self.whole:
            sent = one if group.counts[1] == ONE else delta
            why = f"{group.words}: g = c*sum of delta x' over a few tokens, x of order one"
            self.measure(group, "gradient", group("multiplier") * sent, why)
        if any(row.place.kind is Role.KEY_BIAS for row in self.table.rows):
            why = "it adds one number to all scores of a query, which the softmax leaves out"
            idle = sp.Symbol("gamma_keybias")
            self.nothing("gradient-keybias", idle, why, widths.key_bias_is_idle)

    def updates(self) -> None:
        """u and a: the update's expression folded at the sizes that the steps so far fix."""
        self.at_start = solved(self.steps)
        for group in self.groups.values():
            try:
                folded = size_of_step(self.optimizer, self.sizes(group), self.table.alignment)
            except Refusal:  # another law that is missing has no step
                if group.starts_at_zero and not self.moves():
                    why = f"{group.words} start at 0, where the update is 0: they never leave it"
                    still = group("update")
                    self.nothing(f"update-{group.name}", still, why, lambda: not self.moves())
                continue
            self.laws[group.name] = folded
            counted = self.counts(group)
            symbols = {GRADIENT: group("gradient"), PARAMETER: group("init")}
            entry, action = (
                expression(size.put(counted), symbols) for size in (folded.entry, folded.action)
            )
            self.measure(group, "update", entry, f"{group.words}: the update's own expression")
            how = "n_in aligned terms add" if folded.aligned else "n_in terms add as a random walk"
            why = f"c*dW x of {group.words}: {how}"
            action = group("multiplier") * action
            self.measure(group, "action", action, why, assumptions=self.premise)

    def rates(self) -> None:
        """(U), and what follows for σ and η."""
        for group in self.stepped:
            why = f"(U) one update moves what {group.words} put out by order one"
            self.impose(f"move-{group.name}", group("rate") * group("action"), why)
        for group in self.stepped:
            for what in ("init", "rate") if group.draws else ("rate",):
                self.follow(f"{what}-{group.name}", group(what), group.words, group)

    def confirm(self) -> None:
        """⟨g, ΔW⟩ = Θ(1), and what no gauge changes."""
        for group in self.stepped:
            folded, whole = self.laws[group.name], group.shape[0] * group.shape[1]
            if folded.aligned and folded.action == folded.entry * Monomial.of(INPUTS):
                shown = expression(group.counts[0] * group.counts[1] / whole)
                self.follow(
                    f"increment-{group.name}",
                    expression(whole) * group("gradient") * group("update") * group("rate"),
                    f"<g, dW> of {group.words}: the loss changes by order one",
                    group,
                    checks=(self.slope(group, "increment", shown),),
                )
            if group.draws and self.reduced is not None:
                power = 1 + folded.action.exponent(GRADIENT) - folded.action.exponent(PARAMETER)
                self.follow(
                    f"invariant-{group.name}",
                    group("rate") * group("multiplier") ** sp.Rational(str(power)),
                    f"{group.words}: whatever the multiplier; W = c*W' makes g c times as large "
                    "and W c times as small",
                    group,
                    without="gauge",
                )

    def constants(self) -> None:
        """ε, and weight decay beside the update and in the gradient."""
        for group in self.stepped:
            beside = epsilon(self.optimizer, self.sizes(group))
            if beside is not None:
                why = f"{group.words}: a convention, as large as what it stands beside"
                self.measure(group, "epsilon", expression(beside), why)
            if not any(row.place.is_matrix for row in group.rows):
                continue
            why = f"a convention, {group.words}: "
            kept = group("decay") * group("rate")
            self.impose(f"decay-{group.name}", kept, f"{why}learning rate times decay is kept")
            # decay in the gradient: a term of its own where the update is linear in g, else a share
            entry, coupled = self.laws[group.name].entry, group("coupled_decay")
            if entry.exponent(GRADIENT) == 1 and not entry.exponent(PARAMETER):
                why += "linear in g, so that the decay is a term of its own"
                self.impose(f"coupled-{group.name}", coupled * group("rate"), why)
                continue
            share = group("rate") * group("update") / group("init")
            self.follow(f"share-{group.name}", share, f"{group.words}: share of one update", group)
            if self.steps[-1].rhs == 1:
                why += "it is as large as g, and its share is kept"
                beside_g = coupled * group("init") / group("gradient")
                self.impose(f"coupled-{group.name}", beside_g, why)

    def tied(self) -> None:
        """One matrix as embedding and head: its multiplier, and the two rates that it asks for."""
        vector = self.groups.get("table", self.groups["vector"])
        c = sp.Symbol("c_tied", positive=True)
        if not any(row.role == TIED for row in self.table.rows):
            return
        why = "(H) of a head that is the embedding's matrix, behind a multiplier"
        self.impose("read-out-tied", self.terms * c * vector("init"), why)
        self.follow("multiplier-tied", c, "forced: its size is the embedding's", vector)
        if self.table.form == FORWARD and {vector.name, "head"} <= self.laws.keys():
            why = "the rate that it asks for as the embedding over the one as the head"
            self.follow("rates-tied", vector("rate") / self.head("rate"), why, vector)

    # ---- kinds of rows ----

    def add(self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Any) -> None:
        more = {"relation": Relation.ORDER, "section": self.section, **more}
        self.steps.append(WidthStep(name, lhs, rhs, because=because, **more))

    def impose(self, name: str, lhs: sp.Expr, because: str, *checks: Check, **more: Any) -> None:
        """A condition ``lhs = 1``, which the values at the end must satisfy."""
        ends = Check("the solution satisfies it", lambda s: self.value(s.lhs / s.rhs) == ONE)
        self.add(name, lhs, one, because, imposed=True, checks=(ends, *checks), **more)

    def measure(self, group: Group, what: str, rhs: sp.Expr, because: str, **more: Any) -> None:
        """A size of a group that explicit matrices have too."""
        checks = (self.slope(group, "beside" if what == "epsilon" else what),)
        name = f"{what}-{group.name}"
        self.add(name, group(what), rhs, because, measured=True, checks=checks, **more)

    def nothing(self, name: str, lhs: sp.Expr, because: str, is_zero: Callable[[], bool]) -> None:
        """What explicit numbers show to be 0."""
        checks = (Check("explicit numbers", lambda s: s.rhs == 0 and is_zero()),)
        zero, equal = sp.Integer(0), Relation.EQUAL
        self.add(name, lhs, zero, because, relation=equal, measured=True, checks=checks)

    def follow(
        self, name: str, lhs: sp.Expr, because: str, group: Group, without: str = "-",
        checks: tuple[Check, ...] = (),
    ) -> None:  # fmt: skip
        """What the conditions and the measured sizes of a group make of an expression, in d."""
        known = {symbol(what) for symbol in (group, self.head, self.hidden) for what in SYMBOLS}
        known |= {d, k, delta, *lhs.free_symbols}
        rows = [
            step for step in self.steps
            if (step.imposed or step.measured) and step.rhs != 0
            and step.free_symbols <= known and not step.name.startswith(without)
        ]  # fmt: skip
        value = value_by(rows, lhs)
        value = one if value is None else value
        used = needed(lhs / value, rows)
        # from the steps used and no others: the two sides are alike by elimination
        follows = Check(
            "follows from the steps it uses", lambda s: value_by(used, s.lhs / s.rhs) == 1
        )
        uses = tuple(step.name for step in used)
        self.add(name, lhs, value, because, uses=uses, checks=(follows, *checks))

    def slope(self, group: Group, what: str, stated: sp.Expr | None = None) -> Check:
        """Whether explicit matrices have the size that a step says, in d and k.

        An update that has degrees has them in g and θ. ``stated`` is another size than the step's.
        """

        def holds(step: Step) -> bool:
            size = step.rhs if stated is None else stated
            value = self.value(size)
            asked = {"d": value.exponent("d"), "k": value.exponent("k")}
            if what in ("update", "action") and self.reduced is not None:
                powers = exponents(size)
                for variable, name in (("g", "gradient"), ("theta", "init")):
                    asked[variable] = Fraction(str(powers.get(group(name), 0)))
            measured = {x: seen.get(what) for x, seen in self.slopes(group).items() if x in asked}
            return all(s is not None and s.tends_to(float(asked[x])) for x, s in measured.items())

        return Check("slopes on explicit matrices", holds)

    # ---- values ----

    @property
    def stepped(self) -> list[Group]:
        return [group for group in self.groups.values() if group.name in self.laws]

    @cached_property
    def values(self) -> dict[sp.Symbol, sp.Expr]:
        """Every symbol in d and k, by all steps."""
        return solved(self.steps)

    def value(self, size: sp.Expr) -> Monomial:
        return plain(size.xreplace(self.values)).without_number

    def slopes(self, group: Group) -> dict[str, dict[str, widths.Slope]]:
        """What a group's update does on explicit matrices, at the sizes of the solution."""
        if group.name not in self._slopes:
            self._slopes[group.name] = widths.slopes(
                self.tree(group), self.optimizer.practised.root,
                lambda width, head: self.drawn(group, {"d": width, "k": head}),
                aligned=self.full, heads=group.is_block,
            )  # fmt: skip
        return self._slopes[group.name]

    def drawn(self, group: Group, at: dict[str, int]) -> widths.Drawn:
        """The sizes of a group as numbers."""
        inputs, outputs = (round(count.at(**at)) for count in group.counts)
        c, init, gradient, rate = (
            self.value(self.values.get(group(what), one)).at(**at)
            for what in ("multiplier", "init", "gradient", "rate")
        )
        outputs = widths.LOGITS if group.counts[1] == ONE else outputs
        start = None if group.starts_at_zero else init
        drawn = widths.Drawn(inputs, outputs, c, start, gradient / c, rate)
        full = self.table.selection.rank != LOW_RANK
        return replace(drawn, full_rank=full, is_table=group.is_table)

    def sizes(self, group: Group) -> dict[str, Monomial]:
        """What an update is folded at: counts, and the sizes that the first steps fix."""
        names = {GRADIENT: "gradient"} | ({} if group.starts_at_zero else {PARAMETER: "init"})
        values = {x: plain(self.at_start[group(what)]).without_number for x, what in names.items()}
        return {**values, **self.counts(group)}

    def counts(self, group: Group) -> dict[str, Monomial]:
        return counts(group.counts, self.table.selection.rank, is_table=group.is_table)

    @cached_property
    def reduced(self) -> Node | None:
        """The update, a regime decided; None for one without degrees, a sum of unlike terms."""
        try:
            return law(self.optimizer).reduced
        except Refusal:
            return None

    def moves(self) -> bool:
        """Whether the update, as it is written, moves a parameter of zeros."""
        return widths.moves_zeros(self.optimizer.expression.root)

    def tree(self, group: Group) -> Node:
        """The update that a group takes: a regime decided, and a library's for what is 0."""
        if group.starts_at_zero and not self.moves():
            return self.optimizer.from_zero.root
        decided = None if group.starts_at_zero else self.reduced
        return self.optimizer.expression.root if decided is None else decided


# ---- the table beside the steps ----


@dataclass(frozen=True, repr=False)
class WidthDerivation(Chain, Displayed):
    """A table in width with the steps that it rests on, and with the depth's where it has them.

    ``scale`` says where numbers are printed, and which model they are multiples of.
    """

    table: WidthTable
    scale: Scale | None = None

    @cached_property
    def depth(self) -> Derivation | None:
        """The derivation in depth, of a table in both dimensions."""
        return derive(self.table.selection) if self.table.across != "width" else None

    @cached_property
    def steps(self) -> tuple[Step, ...]:  # type: ignore[override]
        return (*(self.depth.steps if self.depth else ()), *Proof(self.table).all())

    @property
    def steps_in_width(self) -> Iterator[WidthStep]:
        return (step for step in self.steps if isinstance(step, WidthStep))

    @cached_property
    def symbols(self) -> dict[str, Meaning]:
        return symbols_of(self.steps_in_width)

    @cached_property
    def disagreements(self) -> tuple[str, ...]:
        """Where the table says another thing than the steps, both values in a sentence."""
        return tuple(self._disagreements())

    def _disagreements(self) -> Iterator[str]:
        table, values = self.table, solved(self.steps_in_width)
        ends = {str(symbol): plain(value).without_number for symbol, value in values.items()}
        known = groups(table)
        group_of = {id(row): group for group in known.values() for row in group.rows}
        in_depth = factors(table, self.depth) if self.depth else lambda _: {}
        for row in (*table.rows, *table.blocks):
            if row.place.kind is Role.KEY_BIAS:
                if row.rate != ONE:  # it is idle: whatever its rate, which is left alone
                    yield f"rate of {row.role}: 1, its gradient being 0, {row.rate} by the table"
                continue
            # a tied head steps as the embedding
            group = group_of.get(id(row), known.get("table", known["vector"]))
            proved = {what: ends.get(str(group(what))) for what in SYMBOLS}
            if row.role == TIED:
                proved["multiplier"] = ends["c_tied"]
                free = table.form == FORWARD or proved["multiplier"] == ONE
                one_rate = ends.get(str(group("rate"))) == ends.get("eta_head") is not None
                kept = () if not free else proved if one_rate else ("multiplier", "init")
                proved = {what: value if what in kept else None for what, value in proved.items()}
            if not row.place.is_matrix:
                proved |= {"decay": None, "coupled_decay": None}
            times = in_depth(row)
            for what, value in proved.items():
                value = None if value is None else value * times.get(what, ONE)
                if (stated := getattr(row, what)) != value:
                    yield f"{what} of {row.role}: {value} by the steps, {stated} by the table"

    @cached_property
    def verdict(self) -> Verdict:
        """PROVED (given the assumptions) where all steps hold and the table says the same."""
        refuted = self.disagreements or Verdict.REFUTED in self.verdicts.values()
        in_depth = self.depth is not None and self.depth.verdict is Verdict.REFUTED
        return Verdict.REFUTED if refuted or in_depth else Verdict.PROVED

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code

    @property
    def shown(self) -> str:
        """How much has been shown, in words."""
        if self.disagreements:
            return "; ".join(self.disagreements)
        if self.verdict is Verdict.REFUTED:
            return "a step fails its check"
        return (
            "every step follows from those it uses, given its assumptions, and every size of an "
            "update is what explicit matrices of several widths have"
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
            "blocks": [row.texts() for row in table.blocks],
            "forced": list(table.forced),
            "conventions": list(table.conventions),
            **self.steps_to_dict(),
            "disagreements": list(self.disagreements),
            "verdict": self.verdict.value,
        }


def factors(table: WidthTable, depth: Derivation) -> Callable[[WidthRow], dict[str, Monomial]]:
    """What the rule in depth multiplies the numbers of a row by."""
    parameters, eta = depth.parameters, parse(depth.rule.eta)
    if table.form != FORWARD:
        _, _, parameters = in_weights(table.selection, depth.rule, parameters)
    known = {(p.part, p.sublayer, p.name): p for p in parameters}

    def times(row: WidthRow) -> dict[str, Monomial]:
        p = known.get((row.place.part, row.place.sublayer, row.place.parameter))
        if p is None:
            return {"rate": eta, "decay": ONE / eta, "coupled_decay": ONE / eta}
        decay = parse(p.weight_decay) if p.weight_decay != "0" else ONE
        return {"init": parse(p.gain) if row.init is not None else ONE,
                "rate": eta * parse(p.rate), "epsilon": parse(p.epsilon),
                "decay": decay, "coupled_decay": decay}  # fmt: skip

    return times
