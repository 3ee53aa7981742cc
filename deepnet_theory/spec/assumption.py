"""Assumptions: premises of a derivation, each with the measurement that can refute it."""

from __future__ import annotations

from dataclasses import dataclass

from deepnet_theory.spec.discovery import builtin, choose


@dataclass(frozen=True)
class Assumption:
    """A premise, and what would refute it.

    ``measurement`` names a quantity of the laboratory. ``slope`` is the exponent in depth that
    the premise predicts for it (0 for an O(1) quantity), ``at_most`` is a ceiling on its
    value, ``at_least`` a floor; exactly the criteria that are given are tested. An assumption
    without a measurement is reported ASSUMED.
    """

    name: str
    statement: str
    measurement: str | None = None
    slope: float | None = None
    slope_at_most: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    source: str = ""


def assumptions() -> dict[str, Assumption]:
    return builtin("assumptions", Assumption)


def assumption(name: str) -> Assumption:
    return choose("assumption", name, assumptions())
