"""Where parameters are put and in which type: checked where they enter."""

from __future__ import annotations

import torch

from deepnet_theory.spec.errors import InputError, shown, unknown

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def device_of(device: torch.device | str) -> torch.device:
    """The device; raises :class:`InputError` for one that torch does not know or has not here."""
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError, TypeError, ValueError):
        here = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
        raise unknown("device", str(device), here) from None
    return where


def require_dtype(dtype: object) -> None:
    """Raises :class:`InputError` for anything but a floating-point type that torch draws in."""
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {shown(dtype)}; valid are: {', '.join(map(str, DTYPES))}")
