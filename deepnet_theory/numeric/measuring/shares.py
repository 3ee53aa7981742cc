"""Shares: what each part of the stack, or each kind of matrix, contributes to ‖ΔF‖."""

from __future__ import annotations

from collections.abc import Callable

from deepnet_theory.numeric.measuring.model_update import (
    FIRST_ETA,
    ModelUpdate,
    measure_model_update,
)
from deepnet_theory.numeric.stacks.depths import Depth
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.threads import fitting_threads
from deepnet_theory.numeric.stacks.trial import Trial
from deepnet_theory.runtime import Description
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection

KEYS: dict[str, Callable[[Description], str]] = {
    "part": lambda d: d.part or "",
    "sublayer": lambda d: f"{d.part} {d.kind or 'final norm'}",
    "matrix": lambda d: f"{d.kind or 'final norm'} {d.name}",
    "role": lambda d: d.role.value,
}


def measure_shares(
    selection: Selection, rule: Rule, depth: Depth, settings: Settings, by: str = "matrix"
) -> dict[str, ModelUpdate]:
    r"""‖ΔF‖/η when one share of the parameters is stepped alone, by ``part`` … ``role``.

    ΔF is linear in the step, so the shares' ΔF add up to the whole one; their sizes bound it:

    .. math:: \|\Delta F\| \le \sum_s \|\Delta F_s\|

    Raises :class:`InputError` for an unknown ``by``.
    """
    if by not in KEYS:
        raise InputError(f"unknown share {by!r}; valid are: {', '.join(KEYS)}")
    key = KEYS[by]
    with fitting_threads(settings):
        trial = Trial(selection, rule, depth, settings, seeds=1)
        names = list(dict.fromkeys(key(d) for _, d in trial.parameters()))
        whole = measure_model_update(
            selection, rule, depth, settings, eta=FIRST_ETA, draws=settings.draws
        )
        found = {"all": whole}
        for name in names:
            found[name] = measure_model_update(
                selection, rule, depth, settings, eta=whole.eta, draws=settings.draws,
                chosen=lambda d, name=name: key(d) == name,  # type: ignore[misc]
            )  # fmt: skip
    return found
