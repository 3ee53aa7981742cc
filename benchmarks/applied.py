"""One step after ``apply_``, over depth: models of every kind as people write them.

    python benchmarks/applied.py [--seeds 16] [--depths 8,16,32,64] [--kinds ...] [-o FILE]

Each model is made twice at every depth, without the rule and after ``apply_`` for Adam, and
``measure`` takes one step of Adam at the rates of ``parameter_groups``. The models are those of the
tests; two to five minutes a kind on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from arguments import output, whole, wholes
from torch import Tensor, nn

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from written_models import GPT, MLP, Block, with_inner_norms

D, V = 32, 61
HEAD = """\
# One step before and after `apply_`, on models of every kind

After `apply_` and `parameter_groups`, one Adam step changes the output equally at every depth in
{found} of {kinds} kinds of models (SUPPORTED). Before, the change grows with depth in every kind.
A number is the exponent in the depth N of ‖ΔF‖/η, the output change divided by the learning rate:
0 is constant.

The models are pre-LN decoders of width {width} with {depths} layers, {seeds} seeds. SUPPORTED:
the whole 95 % interval is within ±0.05. Made by `python benchmarks/applied.py` with torch {torch}
on the CPU.

| model | exponent before (95 %) | exponent after `apply_` (95 %) | verdict | time (s) |
|---|---|---|---|---|
"""


class Parallel(Block):
    """GPT-J's layer: attention and feed-forward on one sum."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(self.ln_1(x)) + self.mlp(self.ln_2(x))


class Experts(nn.Module):
    """A router picks two of four feed-forwards for every token."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.router = nn.Linear(d, 4, bias=False)
        self.experts = nn.ModuleList(MLP(d) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        gates, which = self.router(tokens).topk(2, dim=-1)
        gates, y = gates.softmax(-1), torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            token, place = torch.where(which == i)
            y.index_add_(0, token, gates[token, place, None] * expert(tokens[token]))
        return y.view_as(x)


class Sandwich(nn.Module):
    """A norm before and one behind each branch, which ``alpha`` divides."""

    def __init__(self, plain: Any, alpha: float, d: int) -> None:
        super().__init__()
        self.attn, self.mlp, self.alpha = plain.attn, plain.mlp, alpha
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.norms[1](self.attn(self.norms[0](x))) / self.alpha
        return x + self.norms[3](self.mlp(self.norms[2](x))) / self.alpha


def sandwich(layers: int, ruled: bool) -> nn.Module:
    """No weight behind the outer norm can take α: the code has it, as ``apply_`` asks."""
    model = GPT(layers)
    model.h = nn.ModuleList(Sandwich(b, 2.0 * layers if ruled else 1.0, D) for b in model.h)
    return model


@dataclass(frozen=True)
class Kind:
    """A model by its number of layers, and what its rule is derived for."""

    make: Callable[..., nn.Module]
    select: dict[str, str] = field(default_factory=dict)
    has_place: bool = True  # for alpha: its code has a place for alpha
    batch: int = 2


KINDS = {
    "plain pre-LN": Kind(GPT),
    "parallel": Kind(partial(GPT, block=Parallel), {"layer": "attention+ffn"}),
    "Sub-LN": Kind(lambda n: with_inner_norms(GPT(n), D), {"layer": "attention-sub-ln,ffn-sub-ln"}),
    "sandwich": Kind(sandwich, {"placement": "sandwich-ln"}, has_place=False),
    # in a deep stack the tokens become alike: fewer of them leave experts without any
    "experts, 2 of 4": Kind(partial(GPT, mlp=Experts), {"layer": "attention,ffn@2/4"}, batch=16),
}


def started(model: GPT) -> GPT:
    """The model with a stream that starts at rms 1, as rules take it."""
    with torch.no_grad():
        for p in (model.wte.weight, model.wpe.weight):
            p.normal_(0.0, 0.5**0.5, generator=torch.Generator().manual_seed(p.shape[0]))
    return model


def tokens(batch: int, length: int = 16) -> Tensor:
    return torch.randint(V, (batch, length), generator=torch.Generator().manual_seed(0))


def made(kind: Kind, ruled: bool, layers: int) -> tuple[nn.Module, Tensor]:
    model = started(kind.make(layers) if kind.has_place else kind.make(layers, ruled))
    ids = tokens(kind.batch)
    if ruled:
        select = {"placement": "pre-ln", "closure": "complete", **kind.select}
        rule = dt.derive("adam", stack="decoder", **select)
        apply_(model, dt.export(rule, layers, width=D, heads=4, vocab=V), inputs=ids)
    return model, ids


def stepped(model: nn.Module) -> torch.optim.Optimizer:
    with warnings.catch_warnings(action="ignore"):  # of packed queries, keys and values
        return torch.optim.Adam(parameter_groups(model, 2.0**-10))


def rows(kinds: list[str], depths: list[int], seeds: int) -> Iterator[str]:
    for name in kinds:
        begun = time.perf_counter()
        found = [
            dt.measure(partial(made, KINDS[name], ruled), depths, optimizer=by, seeds=seeds)
            for ruled, by in ((False, "adam"), (True, stepped))
        ]
        cells = []
        for one in found:
            (power,) = one.exponents
            cells.append(f"{power.estimate:+.3f} [{power.low:+.3f}, {power.high:+.3f}]")
        seconds, but = time.perf_counter() - begun, power.because.partition("; but ")[2]
        cells.append(f"{power.verdict}{': ' * bool(but)}{but}")
        yield f"| {name} | {' | '.join(cells)} | {seconds:.0f} |"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=whole(2), default=24)
    parser.add_argument("--depths", type=wholes, default=[8, 16, 32, 64])
    parser.add_argument("--kinds", choices=KINDS, nargs="*", default=list(KINDS))
    parser.add_argument("-o", "--output", type=output)
    chosen = parser.parse_args(argv)
    torch.set_num_threads(1)
    made_rows = []
    for row in rows(chosen.kinds, chosen.depths, chosen.seeds):
        print(row, flush=True)
        made_rows.append(row)
    page = HEAD.format(
        width=D, depths=", ".join(map(str, chosen.depths)), seeds=chosen.seeds,
        torch=torch.__version__.split("+")[0], kinds=len(made_rows),
        found=sum("| SUPPORTED |" in row for row in made_rows),
    ) + "".join(f"{row}\n" for row in made_rows)  # fmt: skip
    if chosen.output:
        chosen.output.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
