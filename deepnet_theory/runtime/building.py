"""From constants to an initialised model."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deepnet_theory.runtime.description import described
from deepnet_theory.runtime.linear import Make
from deepnet_theory.runtime.model import Model
from deepnet_theory.runtime.places import device_of, require_dtype
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError, shown, unknown
from deepnet_theory.spec.sublayer import Role

KINDS = ("attention", "cross", "ffn", "ffn-swiglu")


def load_constants(path: str | Path) -> Constants:
    """Read a constants file; raises :class:`InputError` for anything but a valid one."""
    constants = Constants.load(path)
    check(constants)
    return constants


def checked(given: Constants | str | Path) -> Constants:
    """Constants, or the file that holds them; raises :class:`InputError` for anything else."""
    if isinstance(given, str | Path):
        return load_constants(given)
    if not isinstance(given, Constants):
        raise InputError(
            f"{shown(given)} is no constants: give Constants, as export() makes, or the name of "
            "their file"
        )
    check(given)
    return given


def check(c: Constants) -> None:
    """Raise :class:`InputError` where a layer has a sublayer that this room does not build."""
    for s in (s for part in c.parts for s in part.sublayers):
        if s.kind not in KINDS:
            raise unknown("sublayer", s.kind, KINDS)


def build(
    constants: Constants | str | Path,
    *,
    seeds: int | None = None,
    generator: torch.Generator | None = None,
    embedding_generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    trainable_vectors: bool = True,
) -> Model:
    r"""The model of the constants, or of the file that holds them, initialised.

    .. math:: W \sim \mathcal N\bigl(0, \mathrm{gain}^2\cdot 2/(\text{fan\_in} +
              \text{fan\_out})\bigr), \qquad \mathrm{gain} = \beta \text{ for value, output and
              feed-forward matrices, } 1 \text{ for the others.}

    With ``seeds=k`` every parameter has a leading dimension k and the model maps
    (k, batch, tokens). ``trainable_vectors=False`` leaves out every gain and bias, which at
    their initial values 1 and 0 change nothing. On ``device="meta"`` nothing is drawn; call
    :func:`initialise_` once the parameters are real. Warns of constants whose relative update grows
    with the depth (:class:`~deepnet_theory.spec.errors.UnstableWarning`). Raises
    :class:`InputError` where the
    constants name something unknown.

    Source: Glorot and Bengio, AISTATS 2010; DeepNet, arXiv 2203.00555, Figure 2 (which
    matrices take β).
    """
    constants = checked(constants)
    constants.warn()
    if seeds is not None and (type(seeds) is not int or seeds < 1):
        raise InputError(f"seeds must be a positive integer or None, not {shown(seeds)}")
    where = None if device is None else device_of(device)
    if dtype is not None:
        require_dtype(dtype)
    make = Make(seeds, where, dtype, trainable_vectors, constants.architecture.bias)
    model = Model(constants, make)
    if where is None or where.type != "meta":
        initialise_(model, generator=generator, embedding_generator=embedding_generator)
    return model


@torch.no_grad()
def initialise_(
    model: nn.Module,
    *,
    generator: torch.Generator | None = None,
    embedding_generator: torch.Generator | None = None,
) -> None:
    """Draw every parameter anew by its description.

    The embedding comes first, then the head, then the stack from the bottom up, a stacked
    weight at once; so one generator gives the same embedding and head at every depth. They may
    have a generator of their own.
    """
    if isinstance(model, Model):
        model.tie_()
    outer = (Role.EMBEDDING, Role.HEAD)
    for parameter, d in described(model):
        if d.is_matrix:
            own = embedding_generator if d.role in outer else None
            dense = parameter if parameter.is_contiguous() else parameter.mT  # drawn as it lies
            dense.normal_(0.0, d.std, generator=own or generator)
        else:
            parameter.fill_(d.gain)


@torch.no_grad()
def unstack(model: Model, seed: int) -> Model:
    """One seed of a stacked model as a model of its own, with copied parameters."""
    stacked = list(described(model))
    if model.seeds is None or not 0 <= seed < model.seeds:
        raise InputError(f"there is no seed {seed} in a model of {model.seeds} seeds")
    first = stacked[0][0]
    vectors = any(not d.is_matrix for _, d in stacked)
    make = Make(None, torch.device("meta"), first.dtype, vectors, model.constants.architecture.bias)
    single = Model(model.constants, make).to_empty(device=first.device)
    single.tie_()
    for (target, _), (source, _) in zip(described(single), stacked, strict=True):
        target.copy_(source[seed])
    single.train(model.training)
    return single


def schema() -> dict[str, Any]:
    """The JSON Schema of a constants file, as it ships in the package."""
    text = (resources.files("deepnet_theory.spec") / "constants.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
