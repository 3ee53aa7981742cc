"""The parameters of ``torch.nn``'s Transformer layers under this runtime's names."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from deepnet_theory.spec.errors import InputError

_FEED_FORWARD = {"linear1": "fc1", "linear2": "fc2"}


def from_torch(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Translate a state_dict of ``torch.nn`` into one of a :class:`Layer` or :class:`Part`.

    A ``TransformerEncoderLayer`` or ``TransformerDecoderLayer`` becomes a layer, a
    ``TransformerEncoder`` or ``TransformerDecoder`` a part, a ``Transformer`` the ``parts`` of
    an encoder–decoder. The packed q/k/v matrix is cut into its three; the α that ``apply_``
    saves with a layer are no parameters, and are left out. Raises
    :class:`InputError` at a name that is none of theirs.
    """
    cross = {k.rsplit("multihead_attn.", 1)[0] for k in state if "multihead_attn." in k}
    result: dict[str, Tensor] = {}
    for key, tensor in state.items():
        *outer, field = key.split(".")
        if field == "_extra_state":
            continue
        place = [p for p in outer if p in ("encoder", "decoder", "layers") or p.isdigit()]
        inner = outer[len(place) :]
        if inner[:1] == ["norm"] and len(inner) == 1:
            result[".".join([*place, "final_norm", _vector(field)])] = tensor
            continue
        prefix = "".join(f"{p}." for p in place)
        last = 2 if prefix in cross else 1  # the feed-forward's place in the layer
        match inner:
            case ["self_attn" | "multihead_attn" as which]:
                index = 0 if which == "self_attn" else 1
                if field not in ("in_proj_weight", "in_proj_bias"):
                    raise InputError(f"{key!r} is no parameter of a torch.nn Transformer layer")
                blocks = zip(("query", "key", "value"), tensor.chunk(3), strict=True)
                for name, block in blocks:  # each (width, width) or (width,)
                    result[f"{prefix}{index}.branch.{name}.{field[8:]}"] = block
            case ["self_attn" | "multihead_attn" as which, "out_proj"]:
                index = 0 if which == "self_attn" else 1
                result[f"{prefix}{index}.branch.output.{field}"] = tensor
            case ["linear1" | "linear2" as which]:
                result[f"{prefix}{last}.branch.{_FEED_FORWARD[which]}.{field}"] = tensor
            case ["norm1" | "norm2" | "norm3" as which]:
                result[f"{prefix}{int(which[-1]) - 1}.norms.0.{_vector(field)}"] = tensor
            case _:
                raise InputError(f"{key!r} is no parameter of a torch.nn Transformer layer")
    return result


def _vector(field: str) -> str:
    """A norm's ``weight`` is called its gain here."""
    return "gain" if field == "weight" else field
