"""Measurements: quantities of a stack, one small file each, that assumptions are tested by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from deepnet_theory.spec.discovery import choose, discover

if TYPE_CHECKING:
    from deepnet_theory.numeric.measuring.probe import Probe


@dataclass(frozen=True)
class Measurement:
    """A quantity with one value per seed at every depth.

    ``of`` receives the :class:`~deepnet_theory.numeric.measuring.probe.Probe` of one depth
    and returns a tensor (seeds,). An assumption of ``spec/assumptions`` names it by its key,
    which is the file's name.
    """

    name: str
    of: Callable[[Probe], Tensor]
    summary: str


@cache
def measurements() -> dict[str, Measurement]:
    """Every measurement of the folder ``measuring/quantities``, by key."""
    folder = Path(__file__).parent / "quantities"
    return {name.replace("-", "_"): m for name, m in discover(folder, Measurement).items()}


def measurement(key: str) -> Measurement:
    """The measurement called ``key``; raises ``InputError`` that lists the valid keys."""
    return choose("measurement", key.replace("-", "_"), measurements())
