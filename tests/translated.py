"""Weights of one model as those of another: a seed of a stack, and the layers of torch.nn."""

import torch

from deepnet_theory.runtime import build, described


def unstack(model, seed):
    """One seed of a stacked model as a model of its own."""
    vectors = any(not d.is_matrix for _, d in described(model))
    dtype = next(model.parameters()).dtype
    single = build(model.constants, dtype=dtype, trainable_vectors=vectors)
    single.load_state_dict({name: p[seed] for name, p in model.state_dict().items()})
    return single.train(model.training)


def from_torch(state):
    """A state_dict of a Transformer of ``torch.nn``, its encoder, decoder or layer, as a built one.

    The packed q/k/v matrix is cut in three; α that ``apply_`` saved are left out.
    """
    cross = {k.rsplit("multihead_attn.", 1)[0] for k in state if "multihead_attn." in k}
    result: dict[str, torch.Tensor] = {}
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
    return result
