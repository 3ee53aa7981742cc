"""Shares: what each part of the stack, or each kind of matrix, contributes to ‖ΔF‖."""

from __future__ import annotations

from collections.abc import Callable

from deepnet_theory.numeric.measuring.model_update import (
    ModelUpdate,
    measure_model_update,
)
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.threads import fitting_threads
from deepnet_theory.numeric.stacks.trial import Trial
from deepnet_theory.runtime import Description
from deepnet_theory.spec.errors import InputError

KEYS: dict[str, Callable[[Description], str]] = {
    "part": lambda d: d.part or "",
    "sublayer": lambda d: f"{d.part} {d.kind or 'final norm'}",
    "matrix": lambda d: f"{d.kind or 'final norm'} {d.name}",
    "role": lambda d: d.role.value,
}


def measure_shares(case: Case, by: str = "matrix") -> dict[str, ModelUpdate]:
    r"""‖ΔF‖/η when one share of the parameters is stepped alone, by ``part`` … ``role``.

    ΔF is linear in the step, so the shares' ΔF add up to the whole one; their sizes bound it:

    .. math:: \|\Delta F\| \le \sum_s \|\Delta F_s\|

    Raises :class:`InputError` for an unknown ``by``.
    """
    if by not in KEYS:
        raise InputError(f"unknown share {by!r}; valid are: {', '.join(KEYS)}")
    key = KEYS[by]
    with fitting_threads(case.settings):
        trial = Trial(case, seeds=1)
        names = list(dict.fromkeys(key(d) for _, d in trial.parameters()))
        whole = measure_model_update(case, draws=case.settings.draws)
        found = {"all": whole}
        for name in names:
            found[name] = measure_model_update(
                case, eta=whole.eta, draws=case.settings.draws,
                chosen=lambda d, name=name: key(d) == name,  # type: ignore[misc]
            )  # fmt: skip
    return found
