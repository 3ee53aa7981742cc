"""Whether a stack fits into memory, asked before it is built."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import torch

from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.selection import Selection


def needed_bytes(selection: Selection, depth: Depth, settings: Settings) -> int:
    """What one step at one depth holds at least: the weights, and activations until the backward.

    A sublayer of half a layer's share keeps about 4 activations of the stream's width and one of
    the hidden width; with a twin of the first seed.
    """
    width, hidden = settings.width, int(settings.ffn_ratio * settings.width)
    sublayers = sum(depth[p.depth] * len(p.layer) for p in selection.the_stack.parts)
    tokens = settings.batch * settings.tokens
    weights = sublayers * width * (2 * width + hidden)
    activations = sublayers * tokens * (4 * width + hidden)
    return (settings.seeds + 1) * (weights + activations) * settings.torch_dtype.itemsize


def available_bytes(device: torch.device) -> int:
    """The memory that can be had: of the GPU, or what the system and its limits leave."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    found = []
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        found.append(1024 * int(text.partition("MemAvailable:")[2].split()[0]))
    with suppress(OSError, ValueError):
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text(encoding="ascii"))
            for name in ("max", "current")
        )
        found.append(limit - used)
    if not found and hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=2**63)


def require_memory(selection: Selection, depths: list[Depth], settings: Settings) -> None:
    """Raise :class:`InputError` where the deepest stack needs more memory than there is."""
    depth = max(depths, key=lambda d: sum(d.values()))
    needed = needed_bytes(selection, depth, settings)
    there = available_bytes(settings.torch_device)
    if needed > there:
        raise InputError(
            f"depth {depth_key(depth)} with {settings.tokens} tokens, batch {settings.batch}, "
            f"{settings.seeds} seeds and width {settings.width} needs at least "
            f"{needed / 1e9:.0f} GB of memory, and {there / 1e9:.0f} GB are there; ask for less"
        )
