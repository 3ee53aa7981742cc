"""What a seed may be."""

from deepnet_theory.spec.errors import InputError, shown


def require_seed(seed: object) -> None:
    """Raises :class:`InputError` for anything but a whole number from 0 to 2**31 - 1."""
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise InputError(f"seed {shown(seed)} is not a whole number from 0 to 2**31 - 1")
