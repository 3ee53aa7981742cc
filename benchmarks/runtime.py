"""Tokens per second, forward and backward, of the runtime, torch.nn and x-transformers.

    python benchmarks/runtime.py [--threads N] [--device cpu|cuda] [--repeats 5] [-o FILE]

All three are post-LN encoders of the same shape with biases, ReLU and no dropout, fed with the
same hidden states, in the same precision. They take turns within every repeat, so a slow moment
of the machine meets all of them; the ratio is the median over repeats of the ratio within one.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from deepnet_theory.runtime import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
    build,
)

SHAPES = ((24, 512, 8), (200, 128, 4))  # layers, width, heads


def runtime(layers: int, width: int, heads: int, device: torch.device) -> nn.Module:
    sublayers = tuple(SublayerConstants(kind, 1.5, 0.5) for kind in ("attention", "ffn"))
    part = PartConstants("encoder", layers, False, sublayers)
    size = Architecture(width=width, heads=heads)
    c = Constants("encoder", "post-ln", "layer", (part,), size)
    return build(c, device=device).parts["encoder"]


def torch_nn(layers: int, width: int, heads: int, device: torch.device) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device)


def x_transformers(layers: int, width: int, heads: int, device: torch.device) -> nn.Module:
    from x_transformers import Encoder

    return Encoder(
        dim=width, depth=layers, heads=heads, attn_dim_head=width // heads, attn_flash=True,
        pre_norm=False, ff_relu_squared=False, ff_custom_activation=nn.ReLU(),
    ).to(device)  # fmt: skip


MODELS: dict[str, Callable[[int, int, int, torch.device], nn.Module]] = {
    "deepnet_theory.runtime": runtime,
    "torch.nn.TransformerEncoder": torch_nn,
    "x-transformers": x_transformers,
}


def seconds(model: nn.Module, x: Tensor, bf16: bool) -> float:
    """One forward and backward pass with gradients of every parameter."""
    model.zero_grad(set_to_none=False)  # gradients keep their memory
    wait = torch.cuda.synchronize if x.is_cuda else (lambda: None)
    wait()
    start = time.perf_counter()
    with torch.autocast(x.device.type, torch.bfloat16) if bf16 else nullcontext():
        loss = model(x).float().square().mean()
    loss.backward()
    wait()
    return time.perf_counter() - start


def compare(
    layers: int, width: int, heads: int, tokens: tuple[int, int], device: torch.device,
    repeats: int, bf16: bool, compiled: bool,
) -> dict[str, object]:  # fmt: skip
    """The three models at one shape, in turns."""
    x = torch.randn(*tokens, width, device=device)  # (batch, tokens, width)
    models = {}
    for name, make in MODELS.items():
        try:
            model = make(layers, width, heads, device)
        except ImportError:
            continue
        models[name] = torch.compile(model) if compiled else model
    times: dict[str, list[float]] = {name: [] for name in models}
    for repeat in range(repeats + 2):
        for name, model in models.items():
            taken = seconds(model, x, bf16)
            if repeat >= 2:  # the first two warm up
                times[name].append(taken)
    ours, *others = models
    return {
        "layers": layers, "width": width, "heads": heads, "batch": tokens[0], "tokens": tokens[1],
        "precision": "bf16 autocast" if bf16 else "fp32", "compiled": compiled,
        "tokens_per_second": {
            name: tokens[0] * tokens[1] / statistics.median(t) for name, t in times.items()
        },
        "parameters": {n: sum(p.numel() for p in m.parameters()) for n, m in models.items()},
        "ratio_to": {
            name: statistics.median(b / a for a, b in zip(times[ours], times[name], strict=True))
            for name in others
        },
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--bf16", action="store_true", help="bf16 autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile every model")
    parser.add_argument("-o", "--output", type=Path, default=None)
    options = parser.parse_args()
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    batch = options.batch or (2 if device.type == "cpu" else 32)
    where = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    rows = []
    for shape in SHAPES:
        row = compare(
            *shape, (batch, options.tokens), device, options.repeats, options.bf16, options.compile
        )
        rows.append(row)
        print(f"{shape[0]} × {shape[1]}, {batch} × {options.tokens} tokens, {row['precision']}")
        speeds, ratios = row["tokens_per_second"], row["ratio_to"]
        assert isinstance(speeds, dict) and isinstance(ratios, dict)
        for name, speed in speeds.items():
            ratio = f"  runtime is {ratios[name]:.2f} × as fast" if name in ratios else ""
            print(f"  {name:30} {speed:10.0f} tokens/s{ratio}")
    if options.output is not None:
        result = {
            "device": where, "threads": torch.get_num_threads(), "torch": torch.__version__,
            "command": " ".join(["python", "benchmarks/runtime.py", *sys.argv[1:]]), "rows": rows,
        }  # fmt: skip
        options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
