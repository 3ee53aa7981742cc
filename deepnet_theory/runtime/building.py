"""From constants, a file or the weights of ``torch.nn`` to a model; and from a model to a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.files import write_bytes
from deepnet_theory.definitions.outcome import InputError, MissingExtraError, shown, unknown
from deepnet_theory.definitions.sublayer import Role, sublayer
from deepnet_theory.runtime.branches import KINDS
from deepnet_theory.runtime.linear import Make, described
from deepnet_theory.runtime.machine import DTYPES, device_of, require_dtype
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
    with the
    depth; raises :class:`InputError` where the constants name something unknown.

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

    Source: derived here (:mod:`deepnet_theory.laboratory.common_mode`).
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
    text = (resources.files("deepnet_theory.definitions") / "constants.schema.json").read_text(
        "utf-8"
    )
    return dict(json.loads(text))


def save(model: Model, path: str | Path) -> None:
    """Write parameters and constants into one safetensors file, by atomic replacement.

    Raises :class:`MissingExtraError`, and :class:`InputError` where it cannot be written.
    """
    try:
        from safetensors.torch import save as to_bytes
    except ImportError:
        raise MissingExtraError("safetensors", "runtime") from None
    metadata = {"constants": model.constants.to_json()}
    if model.seeds is not None:
        metadata["seeds"] = str(model.seeds)
    tensors = {name: p.detach().contiguous() for name, p in model.named_parameters()}
    write_bytes(Path(path), to_bytes(tensors, metadata))


def load(
    path: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> Model:
    """The model in a file that :func:`save` wrote; no code of the file is ever run.

    Raises :class:`InputError` for a file that is damaged or does not fit its constants.
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
    name = repr(str(path))
    try:
        with safe_open(str(path), framework="pt", device=str(where)) as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read {name} as safetensors: {shown(str(error))}") from None
    if "constants" not in metadata:
        raise InputError(f"{name} carries no constants; was it written by save()?")
    constants = checked(Constants.from_json(metadata["constants"]))
    seeds = metadata.get("seeds")
    if seeds is not None and not (seeds.isdecimal() and len(seeds) < 7 and int(seeds) > 0):
        raise InputError(f"{name} names {shown(seeds)} as its number of seeds")
    for key, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise InputError(f"{name}: the tensor {key!r} is of {tensor.dtype}")
    layers = sum(p.layers * len(p.sublayers) for p in constants.parts)
    if layers > 10 * len(tensors):
        raise InputError(f"{name} holds too few tensors for its {layers} sublayers")
    # the largest sizes a hostile file could claim cost nothing on meta before they are compared
    vectors = any(key.endswith((".gain", ".bias")) for key in tensors)
    kept = next((t.dtype for t in tensors.values()), torch.float32)
    model = Model(
        constants,
        Make(
            None if seeds is None else int(seeds), torch.device("meta"), dtype or kept, vectors,
            constants.architecture.bias,
        ),
    )  # fmt: skip
    # every parameter once: a tied head is the embedding
    expected = {key: p.shape for key, p in model.named_parameters()}
    shapes = {key: t.shape for key, t in tensors.items()}
    if wrong := {key for key, _ in expected.items() ^ shapes.items()}:
        raise InputError(f"{name} does not fit its constants: see the tensor {min(wrong)!r}")
    model = model.to_empty(device=where)
    model.tie_()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(tensors[key])
    return model


def from_torch(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Translate a state_dict of ``torch.nn`` into one of a layer, a part, or ``Model.parts``.

    A ``Transformer…Layer`` becomes a layer, a ``TransformerEncoder`` or ``Decoder`` a part; the
    packed q/k/v matrix is cut in three; α that ``apply_`` saved are left out. Raises
    :class:`InputError` at a name that is none of theirs.
    """
    cross = {k.rsplit("multihead_attn.", 1)[0] for k in state if "multihead_attn." in k}
    result: dict[str, Tensor] = {}
    for key, tensor in state.items():
        *outer, field = key.split(".")
        if field == "_extra_state":
            continue
        place = [p for p in outer if p in ("encoder", "decoder", "layers") or p.isdigit()]
        prefix = "".join(f"{p}." for p in place)
        last = 2 if prefix in cross else 1  # the feed-forward's place in the layer
        attention = f"{prefix}{int('multihead_attn' in outer)}.branch"
        vector = "gain" if field == "weight" else field  # a norm's
        match [*outer[len(place) :], field]:
            case ["norm", _]:
                result[f"{prefix}final_norm.{vector}"] = tensor
            case ["self_attn" | "multihead_attn", "in_proj_weight" | "in_proj_bias"]:
                for name, block in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                    result[f"{attention}.{name}.{field[8:]}"] = block  # (width, width) or (width,)
            case ["self_attn" | "multihead_attn", "out_proj", _]:
                result[f"{attention}.output.{field}"] = tensor
            case ["linear1" | "linear2" as which, _]:
                result[f"{prefix}{last}.branch.fc{which[-1]}.{field}"] = tensor
            case ["norm1" | "norm2" | "norm3" as which, _]:
                result[f"{prefix}{int(which[-1]) - 1}.norms.0.{vector}"] = tensor
            case _:
                raise InputError(f"{key!r} is no parameter of a torch.nn Transformer layer")
    return result
