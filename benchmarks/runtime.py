"""Tokens per second, forward and backward, of the runtime, torch.nn and x-transformers.

    python benchmarks/runtime.py [--threads 1] [--device cpu|cuda] [--repeats 9] [-o FILE]

All three are post-LN encoders of the same shape with biases, ReLU and no dropout, fed with the
same hidden states, in the same precision. They take turns within every repeat, in an order that
rotates from repeat to repeat, so that a slow moment of the machine and a neighbour's traces in
its caches meet all of them; the ratio is the median over repeats of the ratio within one, with
its quartiles. One thread on the CPU is timed by the process's CPU time, which other work on the
machine does not enter; everything else by the clock on the wall. Building 1,000 layers of width
128 is timed too.

``-o FILE`` writes Markdown, or JSON where its name ends so.
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
from importlib import metadata
from typing import Any

import torch
from arguments import output, whole
from torch import Tensor, nn

from deepnet_theory.runtime import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
    build,
)

SHAPES = ((24, 512, 8), (200, 128, 4))  # layers, width, heads
WARM_UP = 2


def constants(layers: int, width: int, heads: int) -> Constants:
    sublayers = tuple(SublayerConstants(kind, 1.5, 0.5) for kind in ("attention", "ffn"))
    part = PartConstants("encoder", layers, False, sublayers)
    size = Architecture(width=width, heads=heads)
    return Constants("encoder", "post-ln", "layer", (part,), size)


def runtime(layers: int, width: int, heads: int, device: torch.device) -> nn.Module:
    return build(constants(layers, width, heads), device=device).parts["encoder"]


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


def clock(device: torch.device) -> Callable[[], float]:
    """CPU time of the process where one thread does all the work, else the time on the wall."""
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time if alone else time.perf_counter


def seconds(model: nn.Module, x: Tensor, bf16: bool) -> float:
    """One forward and backward pass with gradients of every parameter."""
    model.zero_grad(set_to_none=False)  # gradients keep their memory
    wait = torch.cuda.synchronize if x.is_cuda else (lambda: None)
    now = clock(x.device)
    wait()
    start = now()
    with torch.autocast(x.device.type, torch.bfloat16) if bf16 else nullcontext():
        loss = model(x).float().square().mean()
    loss.backward()
    wait()
    return now() - start


def compare(
    layers: int, width: int, heads: int, tokens: tuple[int, int], device: torch.device,
    repeats: int, bf16: bool, compiled: bool,
) -> dict[str, Any]:  # fmt: skip
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
    for repeat in range(WARM_UP + repeats):
        for turn in range(len(models)):
            name = list(models)[(repeat + turn) % len(models)]
            taken = seconds(models[name], x, bf16)
            if repeat >= WARM_UP:
                times[name].append(taken)
    ours, *others = models
    ratios = {
        name: [b / a for a, b in zip(times[ours], times[name], strict=True)] for name in others
    }
    return {
        "layers": layers, "width": width, "heads": heads, "batch": tokens[0], "tokens": tokens[1],
        "precision": "bf16 autocast" if bf16 else "fp32", "compiled": compiled,
        "tokens_per_second": {
            name: tokens[0] * tokens[1] / statistics.median(t) for name, t in times.items()
        },
        "parameters": {n: sum(p.numel() for p in m.parameters()) for n, m in models.items()},
        "ratio_to": {name: statistics.median(r) for name, r in ratios.items()},
        "quartiles": {name: statistics.quantiles(r, n=4)[::2] for name, r in ratios.items()},
    }  # fmt: skip


def building(layers: int = 1000, width: int = 128) -> float:
    """Seconds to build and initialise a deep stack, the median of three."""
    taken = []
    now = clock(torch.device("cpu"))
    for _ in range(3):
        start = now()
        build(constants(layers, width, 4))
        taken.append(now() - start)
    return statistics.median(taken)


def markdown(result: dict[str, Any]) -> str:
    """The result as a page."""
    lines = [
        "# The runtime's speed",
        "",
        "How fast is a model of the builder? The table compares its forward and backward pass with "
        "`torch.nn.TransformerEncoder` and x-transformers. A ratio above 1 means that the "
        "builder's model is faster.",
        "",
        f"Set-up: {result['device']}, {result['threads']} thread(s), torch {result['torch']}, "
        f"x-transformers {result['x_transformers']}, {result['clock']}, {result['repeats']} "
        "repeats in turns. Speeds are medians. A ratio is the median over repeats, with its "
        f"quartiles. Made by `{result['command']}`.",
        "",
        "| layers × width | batch × tokens | model | speed (tokens/s) | builder / model |",
        "|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        shape = f"{row['layers']} × {row['width']}"
        for name, speed in row["tokens_per_second"].items():
            ratio = ""
            if name in row["ratio_to"]:
                low, high = row["quartiles"][name]
                ratio = f"{row['ratio_to'][name]:.3f} [{low:.3f}, {high:.3f}]"
            size = f"{row['batch']} × {row['tokens']}"
            lines.append(f"| {shape} | {size} | {name} | {speed:.0f} | {ratio} |")
    seconds = result["building_1000x128_seconds"]
    lines += ["", f"Building and initialising 1,000 layers of width 128: {seconds:.2f} s.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=whole(), default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=whole(), default=9)
    parser.add_argument("--batch", type=whole(), default=None)
    parser.add_argument("--tokens", type=whole(), default=128)
    parser.add_argument("--bf16", action="store_true", help="bf16 autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile every model")
    parser.add_argument("-o", "--output", type=output, default=None)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    batch = options.batch or (2 if device.type == "cpu" else 32)
    rows = [
        compare(*shape, (batch, options.tokens), device, options.repeats, options.bf16,
                options.compile)
        for shape in SHAPES
    ]  # fmt: skip
    alone = clock(device) is time.process_time
    result = {
        "command": " ".join(["python", "benchmarks/runtime.py", *sys.argv[1:]]),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "clock": "CPU time" if alone else "time on the wall",
        "torch": torch.__version__, "x_transformers": _version("x-transformers"),
        "repeats": options.repeats, "rows": rows, "building_1000x128_seconds": building(),
    }  # fmt: skip
    print(markdown(result), end="")
    if options.output is not None:
        json_wanted = options.output.suffix == ".json"
        text = json.dumps(result, indent=2) + "\n" if json_wanted else markdown(result)
        options.output.write_text(text, encoding="utf-8")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
