"""What one update of a mixture of experts moves, in real steps beside a dense branch's."""

import math
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.placement import placement
from deepnet_theory.definitions.sublayer import sublayer
from deepnet_theory.sizes.laws import branch, law
from deepnet_theory.sizes.update import law as update_law

D, TOKENS, VOCAB = 32, 2048, 64
GAIN = 0.2  # near the identity: the branch itself does not change the loss's gradient
KINDS = [(1, 4), (2, 8), (4, 8)]


def moved(chosen, experts, p, draws=6):
    """Mean size and change of the output by a step |g|^p of all experts, root mean square.

    Tokens choose experts at random and push alike: one target in common beside some of their own.
    """
    steps = (one_step(chosen, experts, p, seed) for seed in range(draws))
    return (fmean(sizes) for sizes in zip(*steps, strict=True))


def one_step(chosen, experts, p, seed):
    g = torch.Generator().manual_seed(0)
    draw = torch.Generator().manual_seed(100 * experts + seed)
    x, head = torch.randn(TOKENS, D, generator=g), torch.randn(VOCAB, D, generator=g)
    x = x + torch.randn(D, generator=g)
    own = torch.randint(VOCAB, (TOKENS,), generator=g)
    target = torch.where(torch.rand(TOKENS, generator=g) < 0.8, 0, own)
    inner = (torch.randn(experts, D, 4 * D, generator=draw) * GAIN / math.sqrt(D)).requires_grad_()
    outer = (
        torch.randn(experts, 4 * D, D, generator=draw) * GAIN / math.sqrt(4 * D)
    ).requires_grad_()
    gates = torch.rand(TOKENS, experts, generator=draw).topk(chosen).indices
    gates = torch.zeros(TOKENS, experts).scatter(1, gates, 1 / chosen)

    def output(first, last):
        return torch.einsum(
            "te,teh,ehd->td", gates, (torch.einsum("td,edh->teh", x, first)).relu(), last
        )

    y = output(inner, outer)
    F.cross_entropy((x + y) @ head.T / math.sqrt(D), target).backward()
    rate = 1e-3 if p else 1e-6
    with torch.no_grad():
        steps = [w - rate * w.grad.sign() * w.grad.abs() ** p for w in (inner, outer)]
        change = (output(*steps) - y) / rate
    return y.detach().square().mean().sqrt().item(), change.square().mean().sqrt().item()


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_a_real_step_moves_the_output_as_the_law_says(name):
    p = float(update_law(optimizer(name)).p)
    of = {kind: sublayer(f"ffn@{kind[0]}/{kind[1]}") for kind in KINDS}
    size, dense = moved(1, 1, p)
    for (chosen, experts), own in of.items():
        one, step = moved(chosen, experts, p)
        times, plain = (branch(s).size.at(fc1=1, fc2=1) for s in (own, sublayer("ffn")))
        assert one / size == pytest.approx(times / plain, rel=0.15)
        reached = law(placement("pre-ln"), own).reached("fc1").at()
        assert step / dense == pytest.approx(reached**p, rel=0.15), (chosen, experts)
