"""How much is measured: a few seeds at a few depths first, then what the verdict still needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from deepnet_theory.definitions.measurement import Exponent
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.laboratory.settings import Depth, Settings, spread
from deepnet_theory.laboratory.statistics import CONFIDENCE

FIRST = (3, 5)  # seeds in all at the looks before the last: two give no useful interval
STRIDE = 2**28  # between the seeds of two looks' draws: far from any that is typed


class Look(NamedTuple):
    """One look at the data: ``seeds`` in all at ``depths``, of these ``new`` ones drawn for it."""

    seeds: int
    depths: Sequence[Depth]
    confidence: float
    new: int

    def settings(self, settings: Settings, number: int) -> Settings:
        """Those of the seeds that are new at this look, the first of which has number 0."""
        seed = (settings.seed + number * STRIDE) % 2**31
        return replace(settings, seeds=self.new, seed=seed)


def looks_at(depths: Sequence[Depth], most: int, fewer_depths: bool = False) -> list[Look]:
    r"""Several looks, up to ``most`` seeds; the first one may have fewer depths.

    Alpha spending: by the look with n of the K seeds, 5 % of error are spent up to

    .. math:: \alpha(n) = 0.05\,\log\bigl(1 + (e - 1)\,n/K\bigr)

    and the interval of a look has the confidence 1 − what is spent at it. The errors of all looks
    add up to 5 %, so by Bonferroni's inequality the interval that is reported has a coverage of
    95 % or more, whatever ends the looks.

    Source: Lan and DeMets, Biometrika 70 (1983), with their function of Pocock's kind.
    """
    totals = [0, *(n for n in FIRST if n < most - 1), most]
    shallow = spread(depths) if fewer_depths and len(totals) > 2 else depths
    spent = [(1 - CONFIDENCE) * math.log1p((math.e - 1) * n / most) for n in totals]
    return [
        Look(n, depths if before else shallow, 1 - (by - until), n - before)
        for (before, n), (until, by) in zip(pairwise(totals), pairwise(spent), strict=True)
    ]


def decided(exponents: Sequence[Exponent], look: Look, looks: Sequence[Look]) -> bool:
    """Whether every predicted exponent has its verdict; all depths are needed to refute one.

    Few depths cannot show from where on a slope has settled.
    """
    enough = {Verdict.SUPPORTED}
    if look.depths == looks[-1].depths:
        enough.add(Verdict.REFUTED)
    judged = [e.verdict in enough for e in exponents if e.predicted is not None]
    return bool(judged) and all(judged)


def because(exponents: Sequence[Exponent], look: Look, looks: Sequence[Look]) -> str:
    """How many seeds were taken and why no more; no word where the number was fixed."""
    if len(looks) < 2:
        return ""
    last, enough = looks[-1], "every predicted exponent is decided"
    short = "the budget ended before every exponent was decided"
    return (
        f"{look.seeds} of up to {last.seeds} seeds at {len(look.depths)} of {len(last.depths)} "
        f"depths were measured: {enough if decided(exponents, look, looks) else short}. The "
        f"intervals have 95 % coverage over all {len(looks)} looks at the data."
    )
