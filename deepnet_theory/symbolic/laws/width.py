r"""The steps of a table in width: conditions, sizes of updates, and the rates that follow.

The conditions are imposed, the sizes are measured on explicit matrices of several widths
(:mod:`~deepnet_theory.symbolic.proof.widths`), and what follows is proved: all of it is monomials,
so that a relation follows from others where its exponents are a combination of theirs. Roles with
one shape and one start share their steps.

Source: derived here; the conditions as in :mod:`deepnet_theory.sizes.width`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import sympy as sp

from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.update import (
    FULL,
    GRADIENT,
    HALF,
    INPUTS,
    OUTPUTS,
    PARAMETER,
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
    WidthRow,
    WidthTable,
)
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.expression import Node
from deepnet_theory.spec.sublayer import Role
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra import exponents, from_plain, plain, solve
from deepnet_theory.symbolic.proof import widths
from deepnet_theory.symbolic.proof.step import Check, Relation, Step

d, k, delta = sp.symbols("d k delta", positive=True)
one = sp.Integer(1)
_asked = sp.Symbol("asked", positive=True)
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
_NAMES = {  # of roles that share their steps, by their shape and whether they start at 0
    (COLUMN, False): ("vector", "embeddings and gains"),
    (COLUMN, True): ("bias", "biases"),
    (SQUARE, False): ("hidden", "matrices within a branch"),
    (HEAD, False): ("head", "the head"),
    ((ONE, ONE), True): ("headbias", "the head's bias"),
}
_INCREMENT = ("gradient", "update", "rate")
_SHARED = ("multiplier", "init", "gradient")  # of a head's block and the matrix that it is of
_OF_HEADS = ("block", "query, key and value, where the update steps each head by itself")


@dataclass(frozen=True)
class WidthStep(Step):
    """A step in width; ``measured`` where a number on explicit matrices checks it."""

    measured: bool = False

    def check(self) -> Verdict:
        found = super().check()
        return Verdict.MEASURED if self.measured and found is Verdict.PROVED else found


@dataclass(frozen=True)
class Group:
    """Rows of one shape that start alike, and so share their steps."""

    name: str
    words: str
    rows: tuple[WidthRow, ...]

    @property
    def counts(self) -> tuple[Monomial, Monomial]:
        """n_in and n_out of what an update sees."""
        place = self.rows[0].place
        return place.block or place.shape

    @property
    def starts_at_zero(self) -> bool:
        return self.rows[0].place.starts_at_zero

    @property
    def is_block(self) -> bool:
        return self.rows[0].place.block is not None

    def __call__(self, what: str) -> sp.Symbol:
        """The symbol of a size; a head's block is a part of a matrix within a branch."""
        shared = self.is_block and what in _SHARED
        return sp.Symbol(f"{SYMBOLS[what]}_{'hidden' if shared else self.name}", positive=True)


def groups(table: WidthTable) -> Iterator[Group]:
    """The rows by what they share; the tied head and the key bias have steps of their own."""
    found: dict[tuple[str, str], list[WidthRow]] = {}
    for row in table.rows:
        if row.role != TIED and row.place.kind is not Role.KEY_BIAS:
            found.setdefault(_NAMES[row.place.shape, row.place.starts_at_zero], []).append(row)
    if table.blocks:
        found[_OF_HEADS] = list(table.blocks)
    yield from (Group(*names, tuple(rows)) for names, rows in found.items())


# ---- monomials, here and there ----


def expression(of: Monomial, values: Mapping[str, sp.Expr] | None = None) -> sp.Expr:
    """A monomial as SymPy has it, numbers left out, with values in place of its symbols."""
    return from_plain(of.without_number, {"d": d, "k": k, **(values or {})})


def size(of: sp.Expr) -> Monomial:
    """The monomial of a SymPy expression, numbers left out."""
    return plain(of).without_number


def solved(rows: Iterable[Step], *more: tuple[sp.Expr, sp.Expr]) -> dict[sp.Symbol, sp.Expr]:
    """What monomial relations, and more of them, make of their symbols, in d and k."""
    equations = [*((row.lhs, row.rhs) for row in rows if row.rhs != 0), *more]
    free = {s for sides in equations for side in sides for s in sp.sympify(side).free_symbols}
    # what is asked for stands last: elimination leaves it alone where the others do not fix it
    unknown = sorted(free - {d, k}, key=lambda s: (s == _asked, str(s)))
    return solve(equations, unknown) or {}


def value_of(of: sp.Expr, rows: Iterable[Step]) -> sp.Expr | None:
    return solved(rows, (_asked, of)).get(_asked)


def follows(step: Step, used: Sequence[Step]) -> bool:
    """Whether the two sides are alike by the steps used, and no others."""
    return bool(value_of(step.lhs / step.rhs, used) == 1)


def needed(of: sp.Expr, rows: Sequence[Step]) -> tuple[Step, ...]:
    """The relations that an expression in d and k is a product of powers of; all if it is none."""
    columns = [exponents(row.lhs / row.rhs) for row in rows] + [exponents(of)]
    symbols = sorted({s for column in columns for s in column}, key=str)
    system = sp.Matrix([[column.get(s, sp.Integer(0)) for column in columns] for s in symbols])
    reduced, pivots = system.rref()
    if len(rows) in pivots:
        return tuple(rows)
    return tuple(rows[p] for line, p in enumerate(pivots) if reduced[line, len(rows)] != 0)


class _Chain:
    """Makes the steps of a table; their checks ask for what all of them make of a symbol."""

    def __init__(self, table: WidthTable) -> None:
        self.table, self.optimizer = table, table.selection.the_optimizer
        self.full = table.alignment == FULL
        self.premise = "aligned-with-inputs" if self.full else "independent-update"
        self.aligned_terms = d if self.full else sp.sqrt(d)
        self.groups = {group.name: group for group in groups(table)}
        self.head, self.hidden = self.groups["head"], self.groups["hidden"]
        self.own = [group for group in self.groups.values() if not group.is_block]
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

    # ---- sections ----

    def start(self) -> None:
        """(F), (H) and the gauge."""
        for group in self.own:
            if not group.starts_at_zero and group is not self.head:
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
            self.aligned_terms * self.head("multiplier") * self.head("init"),
            "(H) a move of the features by order one moves the logits by order one: it is "
            + ("along the head's rows, so that d terms add" if self.full else "not along its rows"),
            self.slope(self.head, "read", one),
            assumptions=(self.premise,),
        )
        for group in self.own:
            forward = group is self.head and self.table.form == FORWARD
            self.impose(
                f"gauge-{group.name}",
                group("init" if forward else "multiplier"),
                f"a convention, {group.words}: W = c*W' is the same model",
            )

    def gradients(self) -> None:
        """δ and γ."""
        sent = self.head("multiplier") * self.head("init")
        self.add(
            "backward", delta, sent,
            "what the head sends back, a sum over its few outputs; a matrix within a branch keeps "
            "the size backward as forward",
            checks=(self.slope(self.head, "back"), self.slope(self.hidden, "back", one)),
            assumptions=("fresh-weights", "bounded-loss-gradient"), measured=True,
        )  # fmt: skip
        for group in self.own:
            self.measure(
                group, "gradient",
                group("multiplier") * (one if group.counts[1] == ONE else delta),
                f"{group.words}: g = c*sum of delta x' over a few tokens, x of order one",
            )  # fmt: skip
        if any(row.place.kind is Role.KEY_BIAS for row in self.table.rows):
            self.add(
                "gradient-keybias", sp.Symbol("gamma_keybias"), sp.Integer(0),
                "it adds one number to all scores of a query, which the softmax leaves out",
                checks=(
                    Check("explicit scores", lambda s: s.rhs == 0 and widths.key_bias_is_idle()),
                ),
                relation=Relation.EQUAL, measured=True,
            )  # fmt: skip

    def updates(self) -> None:
        """u and a: the update's expression folded at the sizes that the steps so far fix."""
        self.at_start = solved(self.steps)
        for group in self.groups.values():
            try:
                own = size_of_step(self.optimizer, self.sizes(group), self.table.alignment)
            except Refusal:  # another law that is missing has no step
                if group.starts_at_zero and not self.moves():
                    self.add(
                        f"update-{group.name}", group("update"), sp.Integer(0),
                        f"{group.words} start at 0, where the update is 0: they never leave it",
                        checks=(
                            Check("explicit zeros", lambda s: s.rhs == 0 and not self.moves()),
                        ),
                        relation=Relation.EQUAL, measured=True,
                    )  # fmt: skip
                continue
            self.laws[group.name] = own
            counts = {INPUTS: group.counts[0], OUTPUTS: group.counts[1]}
            symbols = {GRADIENT: group("gradient"), PARAMETER: group("init")}
            entry, action = (expression(of.put(counts), symbols) for of in (own.entry, own.action))
            self.measure(group, "update", entry, f"{group.words}: the update's own expression")
            how = "n_in aligned terms add" if own.aligned else "n_in terms add as a random walk"
            self.measure(
                group, "action", group("multiplier") * action, f"c*dW x of {group.words}: {how}",
                assumptions=(self.premise,),
            )  # fmt: skip

    def rates(self) -> None:
        """(U), and what follows for σ and η."""
        for group in self.stepped:
            self.impose(
                f"move-{group.name}", group("rate") * group("action"),
                f"(U) one update moves what {group.words} put out by order one",
            )  # fmt: skip
        for group in self.stepped:
            if not group.starts_at_zero and not group.is_block:
                self.follow(f"init-{group.name}", group("init"), group.words, group)
            self.follow(f"rate-{group.name}", group("rate"), group.words, group)

    def confirm(self) -> None:
        """⟨g, ΔW⟩ = Θ(1), and what no gauge changes."""
        for group in self.stepped:
            own = self.laws[group.name]
            if own.aligned and own.action == own.entry * Monomial.of(INPUTS):
                whole = group.rows[0].place.shape
                seen = expression(group.counts[0] * group.counts[1] / (whole[0] * whole[1]))
                self.follow(
                    f"increment-{group.name}",
                    expression(whole[0] * whole[1]) * sp.Mul(*map(group, _INCREMENT)),
                    f"<g, dW> of {group.words}: the loss changes by order one",
                    group,
                    checks=(self.slope(group, "increment", seen),),
                )
            if not group.starts_at_zero and not group.is_block and self.reduced is not None:
                power = 1 + own.action.exponent(GRADIENT) - own.action.exponent(PARAMETER)
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
                self.measure(
                    group, "epsilon", expression(beside),
                    f"{group.words}: a convention, as large as what it stands beside",
                )  # fmt: skip
            if not any(row.place.is_matrix for row in group.rows):
                continue
            self.impose(
                f"decay-{group.name}", group("decay") * group("rate"),
                f"a convention, {group.words}: learning rate times decay is kept",
            )  # fmt: skip
            self.coupled(group)

    def coupled(self, group: Group) -> None:
        """Weight decay in the gradient: alike where the update is linear in g, beside it else."""
        mu, share = group("coupled_decay"), group("rate") * group("update") / group("init")
        entry = self.laws[group.name].entry
        if entry.exponent(GRADIENT) == 1 and not entry.exponent(PARAMETER):
            self.impose(
                f"coupled-{group.name}", mu * group("rate"),
                f"a convention, {group.words}: linear in g, so that the decay is a term of its own",
            )  # fmt: skip
            return
        self.follow(f"share-{group.name}", share, f"{group.words}: share of one update", group)
        if self.steps[-1].rhs == 1:
            self.impose(
                f"coupled-{group.name}", mu * group("init") / group("gradient"),
                f"a convention, {group.words}: it is as large as g, and its share is kept",
            )  # fmt: skip

    def tied(self) -> None:
        """One matrix as embedding and head: its multiplier, and the two rates that it asks for."""
        vector = self.groups["vector"]
        if not any(row.role == TIED for row in self.table.rows):
            return
        c = sp.Symbol("c_tied", positive=True)
        self.impose(
            "read-out-tied", self.aligned_terms * c * vector("init"),
            "(H) of a head that is the embedding's matrix, behind a multiplier",
        )  # fmt: skip
        self.follow("multiplier-tied", c, "forced: its size is the embedding's", vector)
        if self.table.form == FORWARD and {"vector", "head"} <= self.laws.keys():
            self.follow(
                "rates-tied", vector("rate") / self.head("rate"),
                "the rate that it asks for as the embedding over the one as the head", vector,
            )  # fmt: skip

    # ---- steps ----

    def add(self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Any) -> None:
        more = {"relation": Relation.ORDER, "section": self.section, **more}
        self.steps.append(WidthStep(name, lhs, rhs, because=because, **more))

    def impose(self, name: str, lhs: sp.Expr, because: str, *checks: Check, **more: Any) -> None:
        """A condition ``lhs = 1``, which the values at the end must satisfy."""
        ends = Check("the solution satisfies it", lambda s: self.value(s.lhs / s.rhs) == ONE)
        self.add(name, lhs, one, because, imposed=True, checks=(ends, *checks), **more)

    def measure(self, group: Group, what: str, rhs: sp.Expr, because: str, **more: Any) -> None:
        """A size of a group that explicit matrices have too."""
        seen = "beside" if what == "epsilon" else what
        self.add(
            f"{what}-{group.name}", group(what), rhs, because, measured=True,
            checks=(self.slope(group, seen),), **more,
        )  # fmt: skip

    def follow(
        self, name: str, lhs: sp.Expr, because: str, group: Group, without: str = "-", **more: Any
    ) -> None:
        """What the conditions and the measured sizes of a group make of an expression, in d."""
        own = {*map(group, SYMBOLS), *map(self.head, SYMBOLS), *map(self.hidden, SYMBOLS)}
        own |= {d, k, delta, *lhs.free_symbols}
        rows = [
            step for step in self.steps
            if (step.imposed or step.measured) and step.rhs != 0
            and step.free_symbols <= own and not step.name.startswith(without)
        ]  # fmt: skip
        value = value_of(lhs, rows)
        value = one if value is None else value
        used = needed(lhs / value, rows)
        checks = (Check("follows from the steps it uses", lambda s: follows(s, used)),)
        self.add(
            name, lhs, value, because, uses=tuple(step.name for step in used),
            **{**more, "checks": (*checks, *more.get("checks", ()))},
        )  # fmt: skip

    def slope(self, group: Group, what: str, of: sp.Expr | None = None) -> Check:
        """Whether explicit matrices have the size that a step says, in d and k.

        An update that has degrees has them in g and θ. ``of`` is another size than the step's.
        """

        def holds(step: Step) -> bool:
            stated = step.rhs if of is None else of
            seen, value = self.slopes(group), self.value(stated)
            asked = {"d": value.exponent("d"), "k": value.exponent("k")}
            if what in ("update", "action") and self.reduced is not None:
                powers = exponents(stated)
                asked["g"], asked["theta"] = (
                    Fraction(str(powers.get(group(name), 0))) for name in ("gradient", "init")
                )
            found = [(seen[x].get(what), float(asked[x])) for x in seen if x in asked]
            return all(slope is not None and slope.tends_to(power) for slope, power in found)

        return Check("slopes on explicit matrices", holds)

    # ---- values ----

    @property
    def stepped(self) -> list[Group]:
        return [group for group in self.groups.values() if group.name in self.laws]

    @cached_property
    def values(self) -> dict[sp.Symbol, sp.Expr]:
        """Every symbol in d and k, by all steps."""
        return solved(self.steps)

    def value(self, of: sp.Expr) -> Monomial:
        return size(of.xreplace(self.values))

    def slopes(self, group: Group) -> dict[str, dict[str, widths.Slope]]:
        """What a group's update does on explicit matrices, at the sizes of the solution."""
        if group.name not in self._slopes:
            self._slopes[group.name] = widths.slopes(
                self.tree(group), self.optimizer.practised.root,
                lambda d, k: self.drawn(group, d, k), aligned=self.full, heads=group.is_block,
            )  # fmt: skip
        return self._slopes[group.name]

    def sizes(self, group: Group) -> dict[str, Monomial]:
        """What an update is folded at: counts, and the sizes that the first steps fix."""
        names = {GRADIENT: "gradient"} | ({} if group.starts_at_zero else {PARAMETER: "init"})
        values = {name: size(group(what).xreplace(self.at_start)) for name, what in names.items()}
        return {**values, INPUTS: group.counts[0], OUTPUTS: group.counts[1]}

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

    def drawn(self, group: Group, width: int, head: int) -> widths.Drawn:
        """The sizes of a group as numbers."""
        at = {"d": width, "k": head}
        n_in, n_out = (round(n.at(**at)) for n in group.counts)
        c, init, gradient, rate = (
            size(self.values.get(group(what), one)).at(**at)
            for what in ("multiplier", "init", "gradient", "rate")
        )
        return widths.Drawn(
            n_in,
            widths.LOGITS if group.counts[1] == ONE else n_out,
            c,
            None if group.starts_at_zero else init,
            gradient / c,
            rate,
        )

    def tree(self, group: Group) -> Node:
        """The update that a group takes: a regime decided, and a library's for what is 0."""
        if group.starts_at_zero:
            own = self.optimizer.expression if self.moves() else self.optimizer.from_zero
            return own.root
        return self.optimizer.expression.root if self.reduced is None else self.reduced


def prove(table: WidthTable) -> tuple[WidthStep, ...]:
    return _Chain(table).all()
