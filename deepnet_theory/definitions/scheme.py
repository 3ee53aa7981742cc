"""A published scheme: its residual equation and its constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from deepnet_theory.definitions.constants import Placed, SublayerConstants
from deepnet_theory.definitions.discovery import HERE, Folder, choose
from deepnet_theory.definitions.expression import DEPTH, INDEXED, Grammar, evaluate
from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.placement import PLACEMENTS, Placement
from deepnet_theory.definitions.rule import Rule
from deepnet_theory.definitions.rule import RuleEntry as RuleEntry
from deepnet_theory.definitions.selection import Selection, stack
from deepnet_theory.definitions.sublayer import Role, Sublayer

ALL_SCALED = ("value", "output", "fc1", "fc2")  # of an ordinary layer
# every kind of parameter that a layer has
IN_STACK = (
    "scaled", "unscaled", "norm-gain", "norm-bias", "output-bias", "inner-bias", "query-bias",
)  # fmt: skip
WIDTH = Grammar("a standard deviation in the width", ("d",), DEPTH.functions)


@dataclass(frozen=True)
class Scheme(Placement):
    """A scheme as published: the residual equation, constants, multipliers, and its optimizer.

    The texts of ``parts`` are in N, M and the layer's index l; a matrix that is not named has gain
    1, as constants of the width alone count. ``rates`` and ``epsilon`` are multipliers by role.
    ``std`` is the standard deviation, in the width d, of every matrix of gain 1 where that is not
    Xavier's. ``layer`` replaces the stack's layer.
    """

    optimizer: str = ""
    parts: tuple[RuleEntry, ...] = (RuleEntry("encoder"),)
    mind: str = ""
    norm: str = "layer"
    rates: Mapping[str, str] = field(default_factory=dict, hash=False)
    epsilon: Mapping[str, str] = field(default_factory=dict, hash=False)
    layer: tuple[Sublayer, ...] | None = None
    std: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        optimizer(self.optimizer)
        for multipliers in (self.rates, self.epsilon):
            for role, text in multipliers.items():
                Role(role)
                INDEXED.parse(text)
        for part in self.parts:
            for text in (part.embedding, *_of_layer(part)):
                INDEXED.parse(text)
            known = {m.name for sublayer in self.layer_of(part.part) for m in sublayer.matrices}
            if unknown := set(part.gains) - known:
                raise InputError(f"scheme {self.name!r}: no sublayer has {sorted(unknown)}")

    @property
    def named_placement(self) -> str | None:
        """The name of the placement with the scheme's equation, None where it has none."""
        by_equation = {(p.equation, p.final_norm): name for name, p in PLACEMENTS.items()}
        return by_equation.get((self.equation, self.final_norm))

    @property
    def stack(self) -> str:
        """The name of the stack that the scheme speaks of."""
        return "encoder-decoder" if len(self.parts) > 1 else self.parts[0].part

    def layer_of(self, part: str) -> tuple[Sublayer, ...]:
        """The sublayers of one layer of a part."""
        if self.layer is not None:
            return self.layer
        return next(p.layer for p in stack(self.stack).parts if p.name == part)

    @property
    def named_layer(self) -> str | None:
        """The scheme's own layer as a selection says it, None where none says it."""
        return None if self.layer is None else ",".join(s.name for s in self.layer)

    def own(self, sublayer: Sublayer) -> Sublayer:
        """The scheme's own sublayer in the place of one with the same matrices, else that one."""
        names = [m.name for m in sublayer.matrices]
        alike = (s for s in self.layer or () if [m.name for m in s.matrices] == names)
        return sublayer if sublayer in (self.layer or ()) else next(alike, sublayer)

    @property
    def indexed(self) -> bool:
        """Whether a layer's constants depend on where it stands."""
        texts = (text for part in self.parts for text in _of_layer(part))
        return any("l" in INDEXED.parse(text).names for text in texts)

    def layer_at(self, part: RuleEntry, layer: float, **depth: float) -> tuple[Placed, ...]:
        """The sublayers of a layer, counted from 1, with the numbers of that layer and depth."""

        def value(text: str) -> float:
            return self.value(text, **depth, l=layer)

        rows, alpha = [], value(part.alpha)
        for s in self.layer_of(part.part):
            gains = {m.name: value(part.gain(m)) for m in s.matrices}
            constants = SublayerConstants(s.name, alpha, 1.0, gains=gains)
            rows.append(Placed(self, constants))
        return tuple(rows)

    def rate_of(self, role: str) -> str:
        """The learning-rate multiplier of a role."""
        return self.rates.get(role, "1")

    def value(self, text: str, **where: float) -> float:
        """A text of the scheme as a number, as in ``value("(2*N)**(1/4)", N=8)``."""
        return _value(text, **where)


def _of_layer(part: RuleEntry) -> tuple[str, ...]:
    """The texts that may depend on where a layer stands."""
    return part.alpha, *part.gains.values()


@lru_cache(4096)  # an audit asks the same of every layer
def _value(text: str, **where: float) -> float:
    return evaluate(INDEXED.parse(text), **where)


SCHEMES: Mapping[str, Scheme] = Folder(HERE / "schemes", Scheme)


def scheme(name: str) -> Scheme:
    return choose("scheme", name, SCHEMES)


def not_exportable(given: Scheme) -> str:
    """What constants lack of a scheme; "" where they have everything."""
    lacking = {
        "numbers that depend on where a layer stands": given.indexed,
        f"the residual equation {given.equation}": given.named_placement is None,
        "an embedding of its own": any(p.embedding != "1" for p in given.parts),
        "a matrix that starts at 0": any("0" in p.gains.values() for p in given.parts),
    }
    return next((what for what, lacks in lacking.items() if lacks), "")


def measurable(given: Scheme, optimizer: str | None, update: str | None) -> tuple[Selection, Rule]:
    """The stack of a scheme that can be built, under its own optimizer or another, and its texts.

    The selection's placement is that of the scheme's equation where it has a name; else it only
    says whether the stack ends in a norm.
    """
    chosen = given.optimizer if optimizer is None and update is None else optimizer
    where = given.named_placement or ("pre-ln" if given.final_norm else "post-ln")
    selection = Selection(chosen, update, where, given.norm, given.stack, given.named_layer)
    return selection, Rule(given.name, given.parts, meaning=f"as published: {given.source}")
