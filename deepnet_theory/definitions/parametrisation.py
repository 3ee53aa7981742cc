"""Parametrisations in width that the derived rule is measured beside, at one learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from deepnet_theory.definitions.discovery import declared
from deepnet_theory.definitions.expression import DEPTH, Grammar

SIZES = Grammar(purpose="a size in the width", symbols=("d",), functions=DEPTH.functions)


@dataclass(frozen=True)
class Parametrisation:
    """The sizes of embeddings, hidden matrices and head as published, in powers of the width d.

    ``init`` is the standard deviation and ``multiplier`` multiplies the map in the forward pass, 1
    where it is not named. Gains start at 1 and biases at 0.
    """

    name: str
    init: Mapping[str, str]
    summary: str
    source: str
    multiplier: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for text in (*self.init.values(), *self.multiplier.values()):
            SIZES.parse(text)


@cache
def parametrisations() -> dict[str, Parametrisation]:
    return declared(globals(), Parametrisation)


NTP = Parametrisation(
    name="ntp",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    summary="neural tangent: entries of size 1, the fan-in's root in the forward pass, one rate",
    source="Jacot, Gabriel and Hongler, arXiv 1806.07572",
)

SP = Parametrisation(
    name="sp",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    summary="standard: every matrix drawn by its fan-in, one learning rate",
    source="practice; Yang et al., arXiv 2203.03466, Table 3, in grey",
)
