"""Models on disk: safetensors, with the constants in the metadata."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from deepnet_theory.runtime.building import check
from deepnet_theory.runtime.linear import Make
from deepnet_theory.runtime.model import Model
from deepnet_theory.runtime.places import DTYPES, device_of, require_dtype
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError, MissingExtraError, shown
from deepnet_theory.spec.files import write_bytes


def save(model: Model, path: str | Path) -> None:
    """Write parameters and constants into one safetensors file, by atomic replacement.

    Raises :class:`MissingExtraError` without safetensors, :class:`InputError` where the file
    cannot be written.
    """
    try:
        from safetensors.torch import save as to_bytes
    except ImportError:
        raise MissingExtraError("safetensors", "runtime") from None
    metadata = {"constants": model.constants.to_json()}
    if model.seeds is not None:
        metadata["seeds"] = str(model.seeds)
    write_bytes(
        Path(path), to_bytes({n: t.contiguous() for n, t in _tensors(model).items()}, metadata)
    )


def load(
    path: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> Model:
    """The model in a file that :func:`save` wrote; no code of the file is ever run.

    Raises :class:`InputError` for a file that is damaged, or whose tensors are not those of a
    model of its constants.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingExtraError("safetensors", "runtime") from None
    where = device_of(device)
    if dtype is not None:
        require_dtype(dtype)
    if not Path(path).is_file():  # a pipe would be waited for
        raise InputError(f"cannot read {str(path)!r}: there is no such regular file")
    try:
        with safe_open(str(path), framework="pt", device=str(where)) as file:
            metadata = file.metadata() or {}
            names = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read {str(path)!r} as safetensors: {shown(str(error))}") from None
    if "constants" not in metadata:
        raise InputError(f"{str(path)!r} carries no constants; was it written by save()?")
    constants = Constants.from_json(metadata["constants"])
    check(constants)
    seeds = metadata.get("seeds")
    if seeds is not None and not (seeds.isdecimal() and len(seeds) < 7 and int(seeds) > 0):
        raise InputError(f"{str(path)!r} names {shown(seeds)} as its number of seeds")
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise InputError(f"{str(path)!r}: the tensor {name!r} is of {tensor.dtype}")
    # the largest sizes a hostile file could claim cost nothing before they are compared
    vectors = any(name.endswith((".gain", ".bias")) for name in tensors)
    make = Make(
        None if seeds is None else int(seeds),
        torch.device("meta"),
        dtype or next((t.dtype for t in tensors.values()), torch.float32),
        vectors,
        constants.architecture.bias,
    )
    layers = sum(p.layers * len(p.sublayers) for p in constants.parts)
    if layers > 10 * len(tensors):
        raise InputError(f"{str(path)!r} holds too few tensors for its {layers} sublayers")
    model = Model(constants, make)
    expected = {name: p.shape for name, p in _tensors(model).items()}
    wrong = sorted(expected.keys() ^ tensors.keys()) or sorted(
        name for name, shape in expected.items() if tensors[name].shape != shape
    )
    if wrong:
        raise InputError(f"{str(path)!r} does not fit its constants: see the tensor {wrong[0]!r}")
    model = model.to_empty(device=where)
    model.tie_()
    with torch.no_grad():
        for name, parameter in _tensors(model).items():
            parameter.copy_(tensors[name])
    return model


def _tensors(model: Model) -> dict[str, Tensor]:
    """Every parameter once: a tied head is the embedding."""
    return {name: p.detach() for name, p in model.named_parameters()}
