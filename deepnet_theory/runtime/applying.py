"""α and β put into a model that somebody already has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.recognising import Layer, Recognised, recognise
from deepnet_theory.spec.constants import Constants, PartConstants
from deepnet_theory.spec.errors import Refusal

_MARK = "_deepnet_theory_constants"


@dataclass(frozen=True)
class Change:
    """What happened to one matrix, vector or residual sum."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class Applied:
    """Every change, in order; empty where the model already had these constants."""

    changes: tuple[Change, ...]

    def __str__(self) -> str:
        if not self.changes:
            return "nothing changed: the model already has these constants"
        return "\n".join(map(str, self.changes))


@torch.no_grad()
def apply_(
    model: nn.Module,
    constants: Constants | str | Path,
    *,
    initialise: bool = True,
    generator: torch.Generator | None = None,
) -> Applied:
    r"""Put the constants into a model that :func:`build` did not make, in place.

    Every residual sum of a post-LN model becomes :math:`\alpha x + G(x)`, and every branch
    matrix is drawn anew with Xavier's law at gain β (value, output, feed-forward) or 1 (query,
    key); packed matrices block by block, each with its own fans; biases become 0. Embeddings,
    heads and norms are left alone. Constants of the form "weights" have α = 1, and the forward
    pass stays as it is: α is in the sizes, and in the rates of
    :func:`~deepnet_theory.runtime.parameter_groups`. ``initialise=False`` sets α only, for a model
    whose trained weights are to be loaded. α is saved in the ``state_dict`` and comes back with it;
    ``load_state_dict`` into a model without α fails, as does Hugging Face's ``from_pretrained``,
    which cannot know of it: make the model from its configuration, apply α to it, and load
    the weights with ``load_state_dict``. A lone encoder or decoder takes its own part of an
    encoder–decoder's constants.

    Idempotent: a model that has the same constants is left as it is, weights included. Raises
    :class:`Refusal`, having changed nothing, for a model that is not recognised or that does
    not fit the constants in placement, depth or kinds of sublayers.
    """
    constants = checked(constants)
    found = recognise(model)
    parts = _fit(found, constants)
    mark = (constants.to_json(), initialise)
    layers_found = [layer for layers in found.parts for layer in layers]
    marked = all(getattr(x.module, _MARK, None) in (mark, (mark[0], True)) for x in layers_found)
    if marked and _scaled(found, parts):  # loaded weights may have brought another α
        return Applied(())
    changes: list[Change] = []
    for part, layers in zip(parts, found.parts, strict=True):
        alphas = tuple(s.alpha for s in part.sublayers)
        for index, layer in enumerate(layers):
            # in the weights' form a residual sum without α is right as it is
            right = constants.form == "weights" and layer.alphas == alphas
            scale = None if right else layer.scale
            for s, own in zip(part.sublayers, layer.sublayers, strict=True):
                if scale is not None:
                    where = f"{part.name} layer {index}, {s.kind}"
                    changes.append(Change(where, f"norm({s.alpha:.6g}·x + G(x))"))
                if not initialise:
                    continue
                for name, block in own.matrices.items():
                    gain = s.gain(name)
                    std = gain * math.sqrt(2.0 / sum(block.fans))
                    block.view.copy_(
                        torch.empty_like(block.view).normal_(0.0, std, generator=generator)
                    )
                    what = f"{name}, gain {gain:.6g}, standard deviation {std:.6g}"
                    changes.append(Change(str(block), what))
                for name, bias in own.biases.items():
                    bias.zero_()
                    changes.append(Change(name, "bias, 0"))
            if scale is not None:
                scale(alphas)
    for encoder in found.encoders:
        if found.placement == "post-ln" and constants.form == "forward":
            encoder.use_nested_tensor = False  # its fast path for padding knows no α
    for layer in layers_found:
        setattr(layer.module, _MARK, mark)
    return Applied(tuple(changes))


def _fit(found: Recognised, c: Constants) -> tuple[PartConstants, ...]:
    """The model's parts among the constants'; :class:`Refusal` where they do not fit."""
    if found.placement != c.placement:
        raise Refusal(f"the model is {found.placement}, the constants are for {c.placement}")
    if c.norm != "layer":
        raise Refusal(f"the model has LayerNorm, the constants are for the norm {c.norm!r}")
    if c.architecture.residual_gain is not None:
        raise Refusal("the constants ask for residual gains, which this model has none of")
    parts = c.parts
    if len(found.parts) < len(parts):  # one half of an encoder–decoder on its own
        parts = tuple(
            p for p in parts if _kinds(found.parts[0][0]) == [s.kind for s in p.sublayers]
        )
    if len(found.parts) != len(parts):
        raise Refusal(f"the model has {len(found.parts)} part(s), the constants {len(c.parts)}")
    for part, layers in zip(parts, found.parts, strict=True):
        if len(layers) != part.layers:
            raise Refusal(
                f"the model's {part.name} has {len(layers)} layers, the constants {part.layers}"
            )
        wanted = [s.kind for s in part.sublayers]
        for layer in layers:
            if _kinds(layer) != wanted:
                raise Refusal(
                    f"a layer of the model's {part.name} is {', '.join(_kinds(layer))}, "
                    f"the constants are for {', '.join(wanted)}"
                )
    return parts


def _scaled(found: Recognised, parts: tuple[PartConstants, ...]) -> bool:
    """Whether every layer has the parts' α already."""
    return all(
        layer.scale is None or layer.alphas == tuple(s.alpha for s in part.sublayers)
        for part, layers in zip(parts, found.parts, strict=True)
        for layer in layers
    )


def _kinds(layer: Layer) -> list[str]:
    return [s.kind for s in layer.sublayers]
