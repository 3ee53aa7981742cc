"""NumPy, SymPy, torch, the laboratory and the derivations, imported when first used.

Claims and what they share name them at the top, and listing the claims still imports none. Types
of them are types for the checker alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import sympy as sp
    import torch
    from numpy.typing import NDArray
    from sympy import Expr
    from torch import Generator, Tensor

    from paper_checks.shared import numeric, symbolic
    from paper_checks.shared.numeric import Interval, Settings, Trial

    Array: TypeAlias = NDArray[Any]
else:
    Array = Expr = Generator = Interval = Settings = Tensor = Trial = Any

    class Later:
        """The module called ``name``, from the first use of one of its names on."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._name), name)

    np, sp, torch = Later("numpy"), Later("sympy"), Later("torch")
    numeric = Later("paper_checks.shared.numeric")
    symbolic = Later("paper_checks.shared.symbolic")
