"""From constants, their file or the weights of ``torch.nn`` to a model."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError, shown, unknown
from deepnet_theory.definitions.sublayer import Role, sublayer
from deepnet_theory.runtime.branches import KINDS
from deepnet_theory.runtime.linear import Make, described
from deepnet_theory.runtime.machine import device_of, require_dtype
from deepnet_theory.runtime.model import Model


def load_constants(path: str | Path) -> Constants:
    """Read a constants file; raises :class:`InputError` for anything but a valid one."""
    return checked(Constants.load(path))


def checked(given: Constants | str | Path) -> Constants:
    """Constants that this room builds, or those of a file.

    Raises :class:`InputError` for anything else, and for a sublayer without a module; experts are
    for somebody's own model, and :func:`build` refuses them.
    """
    if isinstance(given, str | Path):
        return load_constants(given)
    if not isinstance(given, Constants):
        raise InputError(
            f"{shown(given)} is no constants: give Constants, as export() makes, or the name of "
            "their file"
        )
    for s in (s for part in given.parts for s in part.sublayers):
        if s.kind not in KINDS and sublayer(s.kind).experts == 1:
            raise unknown("sublayer", s.kind, KINDS)
    return given


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
    (k, batch, tokens). ``trainable_vectors=False`` leaves out gains and biases. On
    ``device="meta"`` nothing is drawn: see :func:`initialise_`. Warns
    (:class:`~deepnet_theory.definitions.outcome.UnstableWarning`) of a relative update that grows
    with the depth; raises :class:`InputError` where the constants name something unknown.

    Source: Glorot and Bengio, AISTATS 2010; DeepNet, arXiv 2203.00555, Figure 2.
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
    """Draw every parameter anew by its description: embedding, head, then the stack from below.

    So one generator gives the same embedding and head at every depth; they may have their own.
    """
    if isinstance(model, Model):
        model.tie_()
    outer = (Role.EMBEDDING, Role.HEAD)
    for parameter, d in described(model):
        if d.is_matrix:
            first = embedding_generator if d.role in outer else None
            dense = parameter if parameter.is_contiguous() else parameter.mT  # drawn as it lies
            dense.normal_(0.0, d.std, generator=first or generator)
        else:
            parameter.fill_(d.gain)


@torch.no_grad()
def start_head_(head: nn.Module, counts: Tensor) -> None:
    r"""Start a head's bias at the logarithm of the text's token frequencies.

    .. math:: b_i = \ln p_i - \overline{\ln p}, \qquad
              p_i = \frac{n_i + 1}{\sum_j (n_j + 1)}

    with ``counts`` n (vocab,): no part common to all tokens is left to learn then. Raises
    :class:`InputError` for a head without a bias of that length.

    Source: derived here (:mod:`deepnet_theory.laboratory.runs`).
    """
    bias = getattr(head, "bias", None)
    if not isinstance(bias, Tensor):
        raise InputError(
            f"this head, {type(head).__name__}, has no bias: make it with one "
            "(torch.nn.Linear(width, vocab, bias=True), or head_bias=True in the architecture)"
        )
    if counts.shape != bias.shape[-1:] or not (counts >= 0).all():
        raise InputError(
            f"the counts of {shown(tuple(counts.shape))} are not one number from 0 on for each of "
            f"the head's {bias.shape[-1]} tokens"
        )
    logs = (counts.double() + 1).log()
    bias.copy_((logs - logs.mean()).to(bias).expand_as(bias))


def schema() -> dict[str, Any]:
    """The JSON Schema of a constants file, as it ships in the package."""
    text = (resources.files("deepnet_theory.definitions") / "constants.schema.json").read_text(
        "utf-8"
    )
    return dict(json.loads(text))
