"""Layers that are not all alike: each sublayer with its own residual equation and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from deepnet_theory.spec.constants import SublayerConstants
from deepnet_theory.spec.placement import Placement


class Placed(NamedTuple):
    """One residual sublayer: its equation, and the numbers that stand in it.

    ``inner`` is the matrix that one more norm stands before, inside the branch; empty for none.
    """

    placement: Placement
    constants: SublayerConstants
    inner: str = ""


Layer = Sequence[Placed]
