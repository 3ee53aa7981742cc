r"""A branch without a formula: how it answers its parameters and its input, by computing it again.

The power of a parameter W in a branch G is :math:`\partial\ln\mathrm{rms}(G)/\partial\ln t` where
tW stands for W: 1 for the value matrix of attention, 2 for fc1 under a squared ReLU, 0 for what
a norm or the scores take the size of. It is that of the weights that the model was made with.
"""

from __future__ import annotations

import math
from collections.abc import Container
from statistics import fmean

import torch

from deepnet_theory.models.branches import Branch
from deepnet_theory.models.recording import Graph, Node
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.results.reading import Measured

TIMES = 1.1  # a parameter, and as many times less
ASIDE = 0.01  # of each token's length, at right angles to it
LEAST = 1e-30  # such a length, of a token that is 0
DRAWS, SEED = 4, 1_000_003  # not that of somebody's inputs, which a draw would be again
MOST = 32  # parameters: for each of them the branch is computed twice


@torch.no_grad()
def measure_powers(
    graph: Graph, branch: Branch, stream: Node, aside: Container[str | None]
) -> Measured | None:
    """The powers of a branch's parameters but those ``aside``, and its answer to a changed input.

    None for too many parameters, and where the branch is 0 or cannot be computed again.
    """
    entering = (n for node in branch.nodes for n in node.inputs if not n.live)
    own = dict.fromkeys(p for n in entering for p in n.parameters)
    parameters = [p for p in own if p.name not in aside and p.value.any()]
    x, size = stream.value, branch.end.rms
    if len(parameters) > MOST or not size:
        return None

    def change(given: dict[Node, torch.Tensor]) -> torch.Tensor:
        return graph.replay(branch.end, {stream: x, **given}).float()

    def power(p: Node, times: float) -> float:
        again = change({p: p.value * times}).square().mean().sqrt()
        return math.log(float(again) / size) / math.log(times)

    def answer() -> float:
        z = torch.empty(x.shape).normal_(generator=generator).to(x)
        length = x.norm(dim=-1, keepdim=True).clamp_min(LEAST)
        z -= x * (z * x / length).sum(-1, keepdim=True) / length
        z *= ASIDE * length / z.norm(dim=-1, keepdim=True).clamp_min(LEAST)
        moved = change({stream: x + z}) - branch.end.value.float()
        return float(moved.square().mean().sqrt()) / size / ASIDE

    generator = torch.Generator().manual_seed(SEED)
    try:
        ends = {p.name or "": (power(p, TIMES), power(p, 1 / TIMES)) for p in parameters}
        answers = [answer() for _ in range(DRAWS)]
    except (InputError, RuntimeError, ValueError):  # code that cannot be run again in parts
        return None
    powers = {name: (fmean(two), abs(two[0] - two[1]) / 2) for name, two in ends.items()}
    return Measured(powers, fmean(answers), min(answers), max(answers))
