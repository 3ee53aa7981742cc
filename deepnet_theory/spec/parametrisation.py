"""A published parametrisation in width: what it sets by class of parameter, not what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deepnet_theory.spec.discovery import builtin, choose
from deepnet_theory.spec.errors import InputError, unknown
from deepnet_theory.spec.expression import DEPTH, Grammar
from deepnet_theory.spec.optimizer import optimizer
from deepnet_theory.spec.selection import ALIGNMENTS

SIZES = Grammar(
    purpose="a size in the width and the depth", symbols=("d", "N"), functions=DEPTH.functions
)
# what a class has where a source does not name it: that of the class beside it
OTHERWISE = {"residual-output": "hidden", "final-gain": "gain"}
CLASSES = ("embedding", "hidden", "residual-output", "head", "gain", "final-gain", "bias")
EVERY = ("embedding", "hidden", "head", "gain", "bias", "final-gain")  # that a rate is named for
DECAYS = ("decoupled", "independent", "coupled")
FULL, _ = ALIGNMENTS
ANY = "any"  # of a column that stands for every optimizer

Texts = Mapping[str, str]  # by class of parameter, in d and N; a class not named is not said


@dataclass(frozen=True)
class Column:
    """What is set for one optimizer, or for all that step alike, at one alignment.

    ``optimizer`` is a built-in one's name or ``"any"``. ``rate``, ``epsilon`` and ``decay`` are
    multipliers of the learning rate, of ε and of the weight decay. ``decays`` says how that is
    applied: ``decoupled`` is multiplied by the learning rate, ``independent`` is not, ``coupled``
    is added to the gradient.
    """

    optimizer: str
    rate: Texts
    epsilon: Texts = field(default_factory=dict)
    decay: Texts = field(default_factory=dict)
    decays: str = ""
    alignment: str = FULL

    def __post_init__(self) -> None:
        if self.optimizer != ANY:
            optimizer(self.optimizer)
        if self.alignment not in ALIGNMENTS:
            raise unknown("alignment", self.alignment, ALIGNMENTS)
        if bool(self.decay) != bool(self.decays):
            raise InputError("a weight decay and how it is applied are given together")
        if self.decays and self.decays not in DECAYS:
            raise unknown("decays", self.decays, DECAYS)


@dataclass(frozen=True)
class Parametrisation:
    """A parametrisation as published: σ, c and the rates of each class of parameters.

    ``init`` is the standard deviation, 0 for what starts at zero, ``multiplier`` what multiplies
    the map in the forward pass, 1 where it is not named; ``branch`` multiplies a branch.
    Gains start at 1 and biases at 0. ``scores`` is the attention's factor in the head size k. The
    first column is its own optimizer's; of a ``hybrid`` each column steps the classes that it
    names.
    """

    name: str
    init: Texts
    columns: tuple[Column, ...]
    summary: str
    source: str
    multiplier: Texts = field(default_factory=dict)
    branch: str = "1"
    scores: str = ""
    tied: bool = False
    hybrid: bool = False
    mind: str = ""

    def __post_init__(self) -> None:
        SIZES.parse(self.branch)
        several = [self.init, self.multiplier]
        several += [texts for c in self.columns for texts in (c.rate, c.epsilon, c.decay)]
        for texts in several:
            for of, text in texts.items():
                SIZES.parse(text)
                if of not in CLASSES:
                    raise unknown("class of parameters", of, CLASSES)


def said(texts: Texts, of: str) -> str | None:
    """What is set for a class, or for the one that it otherwise belongs to; None if nothing is."""
    return texts.get(of, texts.get(OTHERWISE.get(of, "")))


def parametrisations() -> dict[str, Parametrisation]:
    return builtin("parametrisations", Parametrisation)


def parametrisation(name: str) -> Parametrisation:
    return choose("parametrisation", name, parametrisations())
