"""The first updates of somebody's model, and what its tokens come to share in them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepnet_theory.models.factory import Made
from deepnet_theory.models.final_state import FinalState
from deepnet_theory.models.first_step import FirstStep
from deepnet_theory.models.reading import Reader
from deepnet_theory.models.recording import record
from deepnet_theory.numeric.common_mode import CommonMode, Sum, is_taken, length
from deepnet_theory.numeric.trial import text_windows
from deepnet_theory.processes.identity import Seen, seen

WINDOWS = 32  # of text an update, where the inputs are our own token ids


@dataclass(frozen=True)
class Followed:
    """One seed: the loss before each update and behind the last, R at ``steps``.

    It ends where a loss is not finite. ``normed`` says that a norm takes every sum back.
    """

    losses: tuple[float, ...]
    steps: tuple[int, ...]
    taken: tuple[CommonMode, ...]
    normed: bool
    seen: Seen


def follow(
    made: Made, step: FirstStep, updates: int, eta: float | None, final_state: str | None, seed: int
) -> Followed:
    """Train a model for some ``updates``; it is evaluated without dropout.

    Each update takes its own batch where ``made`` has batches, windows of text where it was given
    token ids of our own, and else the one batch again and again.
    """
    if made.drawn and len(ids := [x for x in made.inputs if not x.is_floating_point()]) == 1:
        made = replace(made, batches=_Windows(ids[0], seed))
    losses: list[float] = []
    found: dict[int, CommonMode] = {}
    take, normed = None, False
    for index in range(updates + 1):
        now = made.at(index)
        generator = torch.Generator().manual_seed(seed)  # of a head that is always the same
        final = FinalState(made.module, (now.inputs, now.keywords), final_state, generator)
        state, loss = final.with_loss()
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            break
        if is_taken(index) or index == updates:
            found[index], normed = common_mode(now, state.detach())
        if index < updates:
            made.module.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            take = take or step.going(made.module, eta)
            take()
    return Followed(tuple(losses), tuple(found), tuple(found.values()), normed, seen())


class _Windows:
    """Bytes of a text, folded into the ids that a model is known to take."""

    def __init__(self, like: Tensor, seed: int) -> None:
        self.like, self.ids, self.seed = like, int(like.max()) + 1, seed

    def __call__(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        windows = text_windows(WINDOWS, self.like.shape[-1], generator)
        return (windows % self.ids).to(self.like)


@torch.no_grad()
def common_mode(made: Made, state: Tensor) -> tuple[CommonMode, bool]:
    """R of the last stack's branches, the tokens' cosine in ``state``; whether sums have norms.

    Raises :class:`InputError` where no forward pass shows a residual stream.
    """
    reader = Reader(record(made), made.module)
    chain = reader.chains()[-1]
    *_, row = reader.reading().stacks.values()
    layers = {s.sums: s.layer for s in row}
    normed = all("sum" in s.around for s in row)
    total, entering, carried = Sum(), _tokens(chain[0].stream.node.value), 1.0
    for index, s in enumerate(chain):
        here = length(_tokens(s.stream.node.value))
        carried = s.stream.coefficient * (1.0 if normed else carried)
        for branch in s.branches:
            moved = _tokens(branch.node.value) * (branch.coefficient / carried)
            # the stream itself has every factor before this sum's
            total.add(layers[index], moved, here if normed else length(entering),
                      here * s.stream.coefficient / carried)  # fmt: skip
    (found,) = total.found(_tokens(state))
    return found, normed


def _tokens(x: Tensor) -> Tensor:
    """(…, width) as of one model: (1, tokens, width)."""
    return x.detach().float().flatten(0, -2)[None]
