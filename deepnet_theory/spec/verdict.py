"""What a check concludes."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """UNDECIDED is never a pass."""

    IMPOSED = "IMPOSED"  # a condition that is asked for, such as a balance: not true or false
    PROVED = "PROVED"  # symbolic, exact, given the listed assumptions
    MEASURED = "MEASURED"  # a number, found again on explicit matrices
    SUPPORTED = "SUPPORTED"  # measured: interval inside the tolerance, rivals excluded
    ASSUMED = "ASSUMED"  # stated, not tested
    UNDECIDED = "UNDECIDED"  # the interval is too wide to say
    REFUTED = "REFUTED"  # a counterexample, or an interval that excludes it

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends in this verdict."""
        return {"REFUTED": 1, "UNDECIDED": 3, "ASSUMED": 3}.get(self.value, 0)
