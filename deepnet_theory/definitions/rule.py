"""A rule: what every kind of sublayer and of parameter starts and steps with, by depth.

Formulas are texts in N and M, not SymPy's objects: a rule travels, into JSON and back, to other
processes, into a model that knows torch alone. All readers share one tree of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, TypeVar

from deepnet_theory.definitions.discovery import choose, declared
from deepnet_theory.definitions.expression import DEPTH, Expression, Grammar, evaluate
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.record import NOT_NEGATIVE, OPTIONAL, POSITIVE
from deepnet_theory.definitions.sublayer import Matrix, Role

PLAIN = "plain"  # the name of α = β = 1 where it is measured beside a rule
STAND_FOR = {"gate": "fc1", "up": "fc1", "down": "fc2"}  # where gains name fc1 and fc2 alone
# the closure that its source takes, and what a rule is called by how it was chosen
PUBLISHED, FIRST, TO_TRAIN_WITH = "published", "as published", "recommended for training"

T = TypeVar("T")


def number(text: str, **depth: int) -> float:
    """A formula in N and M at a depth; raises :class:`InputError` where it is no number there."""
    return evaluate(DEPTH.parse(text), **depth)


def numbers(texts: Mapping[str, str], **depth: int) -> dict[str, float]:
    """Named formulas at a depth."""
    return {name: number(text, **depth) for name, text in texts.items()}


@dataclass(frozen=True)
class RuleEntry:
    r"""α and β of one part of the stack and one kind of sublayer (``"*"``: all kinds).

    ``gains`` are those of single matrices by name, in place of β, on Xavier-normal size
    :math:`\sqrt{2/(\text{fan\_in} + \text{fan\_out})}`. ``rate`` is κ, the
    learning-rate multiplier of its scaled matrices; ``rho`` their relative update ‖ΔW‖/(η‖W‖)
    under the optimizer that the rule was derived for, empty where none was. ``norm_epsilon`` is
    what the ε of a norm is multiplied by, for each of :attr:`Placement.places` where what the norm
    divides falls with the depth. ``embedding`` is the size of the stream that enters the part.
    """

    part: str = field(metadata={"json": "name"})
    sublayer: str = field(default="*", metadata=OPTIONAL)
    alpha: str = "1"
    beta: str = field(default="1", metadata=OPTIONAL)
    rate: str = field(default="1", metadata=OPTIONAL)
    rho: str = field(default="", compare=False, metadata=OPTIONAL)
    gains: Mapping[str, str] = field(default_factory=dict, hash=False, kw_only=True)
    norm_epsilon: Mapping[str, str] = field(
        default_factory=dict, hash=False, kw_only=True, metadata=OPTIONAL
    )
    embedding: str = field(default="1", kw_only=True)

    def gain(self, matrix: Matrix) -> str:
        """The gain of a matrix; a gated feed-forward's is that of the plain one's in its place."""
        name = matrix.name if matrix.name in self.gains else STAND_FOR.get(matrix.name, matrix.name)
        return self.gains.get(name, self.beta if matrix.role is Role.SCALED else "1")

    def at(self, **depth: int) -> tuple[float, float]:
        """The values of α and β at a depth such as ``N=8`` or ``N=8, M=6``."""
        alpha, beta = number(self.alpha, **depth), number(self.beta, **depth)
        if alpha <= 0 or beta <= 0:
            where = ", ".join(f"{k} = {v}" for k, v in depth.items())
            raise InputError(
                f"alpha = {self.alpha!r} and beta = {self.beta!r} must be positive at {where}"
            )
        return alpha, beta

    def to_dict(self, **depth: int) -> dict[str, object]:
        """Plain data, with the values at a depth where one is given."""
        row: dict[str, object] = {
            "stack": self.part, "sublayer": self.sublayer, "alpha": self.alpha, "beta": self.beta,
            "rate": self.rate,
        }  # fmt: skip
        beside: dict[str, object] = {"gains": self.gains, "rho": self.rho}
        beside["norm_epsilon"] = self.norm_epsilon
        if depth:
            row["alpha_value"], row["beta_value"] = self.at(**depth)
            row["rate_value"] = number(self.rate, **depth)
            beside["norm_epsilon_value"] = numbers(self.norm_epsilon, **depth)
        return row | {name: value for name, value in beside.items() if value}


@dataclass(frozen=True)
class Rule:
    """The entries of every part, and the learning rate's factor ``eta``.

    ``meaning`` says what the constants in the rule mean: a convention of the balance
    "= 1" and of the closure, not a measured optimum.
    """

    name: str
    entries: tuple[RuleEntry, ...]
    eta: str = "1"
    meaning: str = ""

    def entry(self, part: str, sublayer: str) -> RuleEntry:
        """The entry that governs ``sublayer`` in ``part``."""
        for name in (sublayer, "*"):
            for entry in self.entries:
                if entry.part == part and entry.sublayer == name:
                    return entry
        raise InputError(f"the rule {self.name!r} says nothing of {sublayer!r} in the {part}")

    def plain(self) -> Rule:
        """The texts alone, without the expressions that a solved rule has beside them."""
        return Rule(self.name, self.entries, self.eta, self.meaning)

    def depth_of(self, layers: int | None, depth: dict[str, int]) -> dict[str, int]:
        """A depth by its names: ``layers`` alone are the N of a single stack, a decoder's M."""
        if layers is None:
            return depth
        parts = {entry.part for entry in self.entries}
        if depth or len(parts) > 1:
            raise InputError("name the depth of every stack: N=100, or N=18, M=6 for two")
        return {"M" if parts == {"decoder"} else "N": layers}

    def alpha_at(self, layers: int | None = None, **depth: int) -> float | dict[str, float]:
        """α as a number at a depth: ``rule.alpha_at(100)``, ``N=100``, or ``N=18, M=6``.

        Where parts or kinds of sublayers differ, a dictionary with the keys of :meth:`keyed`.
        Raises :class:`InputError` where a depth is missing, or α is not positive there.
        """
        return self._at(0, self.depth_of(layers, depth))

    def beta_at(self, layers: int | None = None, **depth: int) -> float | dict[str, float]:
        """β as a number at a depth, as :meth:`alpha_at` gives α."""
        return self._at(1, self.depth_of(layers, depth))

    def _at(self, index: int, depth: dict[str, int]) -> float | dict[str, float]:
        return self.keyed([entry.at(**depth)[index] for entry in self.entries])

    def keyed(self, values: Sequence[T]) -> T | dict[str, T]:
        """One value an entry, by part and kind: ``"encoder"``, ``"ffn"``, ``"encoder/ffn"``.

        A single entry's value stands alone.
        """
        if len(self.entries) == 1:
            return values[0]
        several = len({entry.part for entry in self.entries}) > 1
        names = [
            [entry.part] * several + [entry.sublayer] * (entry.sublayer != "*")
            for entry in self.entries
        ]
        return dict(zip(map("/".join, names), values, strict=True))

    def eta_at(self, layers: int | None = None, **depth: int) -> float:
        """The factor on the learning rate at a depth."""
        return number(self.eta, **self.depth_of(layers, depth))

    def told(self, **depth: int) -> str:
        """The formulas in one line, with their values at a depth where one is given."""

        def valued(formula: str) -> str:
            if not depth or formula == "1":
                return formula
            return f"{formula} = {number(formula, **depth):.6g}"

        entries = []
        for e in self.entries:
            knobs = [f"alpha = {valued(e.alpha)}", f"beta = {valued(e.beta)}"]
            beside = {"kappa": e.rate, "eta times": self.eta}
            knobs += [
                f"{symbol} = {valued(text)}" for symbol, text in beside.items() if text != "1"
            ]
            knobs += [f"{name} {gain}" for name, gain in e.gains.items() if gain != "1"]
            epsilon = e.norm_epsilon.items()
            knobs += [f"epsilon of its {where} norm times {by}" for where, by in epsilon]
            owner = e.part if e.sublayer == "*" else f"{e.part}, {e.sublayer}"
            entries.append(f"{owner} {', '.join(knobs)}")
        return "; ".join(entries)


@dataclass(frozen=True)
class Row:
    """A rule, how it was chosen, its closure and whose closure that is."""

    chosen: str
    closure: str
    whose: str
    rule: Rule

    @property
    def named(self) -> str:
        """What tells it from the other rule of its selection."""
        return f"{self.chosen} ({self.closure})"


def own_rule(
    parts: tuple[str, ...],
    alpha: object,
    beta: object,
    decoder_alpha: object = None,
    decoder_beta: object = None,
) -> Rule:
    """A user's own rule, of whatever Python writes as a formula in N and M.

    The decoder of an encoder–decoder takes its own α and β if given. Raises :class:`InputError`.
    """
    if len(parts) == 1 and not decoder_alpha is decoder_beta is None:
        raise InputError(
            f"the stack has one part, {parts[0]}; decoder-alpha and decoder-beta are valid with "
            "the stack 'encoder-decoder'"
        )
    second = [alpha if decoder_alpha is None else decoder_alpha]
    second += [beta if decoder_beta is None else decoder_beta]
    try:
        each = [(str(a), str(b)) for a, b in ((alpha, beta), second)]
    except ValueError as error:  # more digits than Python writes
        raise InputError(f"this is no alpha or beta: {error}") from None
    for text in (text for own in each for text in own):
        DEPTH.parse(text)  # bad input is refused here, not at the first use
    entries = tuple(RuleEntry(part, "*", *own) for part, own in zip(parts, each, strict=False))
    return Rule("own", entries, meaning="as the user wrote it")


# ------------------------------------------------------------------------------- single parameters


KNOBS = ("gain", "rate", "epsilon", "weight_decay")


@dataclass(frozen=True)
class ParameterConstants:
    r"""The numbers of one kind of parameter at one depth.

    ``gain`` is the initial size, on Xavier's law for a matrix, of every entry for a vector. The
    others multiply what the user chooses for a network of one depth:

    .. math:: \mathrm{lr}\cdot\mathrm{rate}, \qquad \varepsilon\cdot\mathrm{epsilon}, \qquad
              \lambda\cdot\mathrm{weight\_decay}

    ``memory`` is what 1 − β of each average is multiplied by. ``refused`` says why it has no weight
    decay where it should.
    """

    gain: Annotated[float, NOT_NEGATIVE] = 1.0
    rate: Annotated[float, NOT_NEGATIVE] = 1.0
    epsilon: Annotated[float, NOT_NEGATIVE] = 1.0
    weight_decay: Annotated[float, NOT_NEGATIVE] = 1.0
    memory: Annotated[float, POSITIVE] = field(default=1.0, metadata=OPTIONAL, kw_only=True)
    refused: str = field(default="", metadata=OPTIONAL, kw_only=True)


# ---- closures: the condition beside the balance that picks one rule of them all ----

CLOSURE = Grammar("one side of a closure", ("alpha", "beta", "m", "rho"), {"sqrt": (1, 1)})


@dataclass(frozen=True)
class Closure:
    """Conditions that hold beside the balance, as ``(left, right)`` sides of equations.

    Sides are monomials in alpha, beta, m, the number of scaled matrices of the branch, and rho,
    the relative update ‖ΔW‖/(η‖W‖) of one of them. ``knobs`` are the unknowns that balance and
    conditions together must determine: ``eta``, one factor on the learning rate, ``rate``, a
    multiplier for the scaled matrices of each kind, which is taken only where α and β cannot do.
    """

    name: str
    conditions: tuple[tuple[str, str], ...]
    knobs: tuple[str, ...] = ("alpha", "beta")
    summary: str = ""
    source: str = ""

    @cached_property
    def expressions(self) -> tuple[tuple[Expression, Expression], ...]:
        return tuple((CLOSURE.parse(a), CLOSURE.parse(b)) for a, b in self.conditions)

    def __post_init__(self) -> None:
        _ = self.expressions


COMPLETE = Closure(
    name="complete",
    conditions=(("rho", "1"),),
    knobs=("alpha", "beta", "rate"),
    summary="every order of an update is of order one in depth, at the same learning rate",
    source="derived here; for pre-LN compare Dey et al., arXiv 2505.01618",
)

LEARNING_RATE = Closure(
    name="learning-rate",
    conditions=(("alpha", "1"), ("beta", "1")),
    knobs=("alpha", "beta", "eta"),
    summary="the plain network, balanced by the learning rate alone",
    source="Su, §Increment explosion, warm-up",
)

PARAMETER_NORM = Closure(
    name="parameter-norm",
    conditions=(("sqrt(m)*beta", "1/alpha"),),
    summary="the norm of the branch's gains is the inverse of the residual multiplier",
    source="DeepNet, arXiv 2203.00555, as the layer cake, §4.3, completes it",
)

SYMMETRIC = Closure(
    name="symmetric",
    conditions=(("beta", "1/alpha"),),
    summary="the initialisation gain is the inverse of the residual multiplier",
    source="Su, §First conclusions",
)

UNIT_INIT = Closure(
    name="unit-init",
    conditions=(("beta", "1"),),
    summary="no change of the initialisation",
    source="Su, §First conclusions, second alternative",
)

UNIT_RESIDUAL = Closure(
    name="unit-residual",
    conditions=(("alpha", "1"),),
    summary="no residual multiplier",
    source="Su, §First conclusions, first alternative; §Multiple optimizers, LAMB",
)

CLOSURES = declared(globals(), Closure)


def closure(name: str) -> Closure:
    return choose("closure", name, CLOSURES)
