r"""What differences do to one step: measured on the model as it is, and where they are fixed.

Weights take the rule's gains. Where α differs, the last matrix of the branch carries it: αx + cWh
is α'x + Wh up to a factor for :math:`c = \alpha/\alpha'`, and cW moves as W does there if its step,
of degrees p and q, is multiplied by :math:`c^{1 + p - q}`. The same holds for a matrix that reads a
multiple of its input.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.outcome import DeepNetTheoryError, Refusal
from deepnet_theory.definitions.reading import UNKNOWN, FoundMatrix, Reading
from deepnet_theory.definitions.subject import RATE_OF, Difference, Wanted, reading_alpha
from deepnet_theory.definitions.sublayer import sublayer
from deepnet_theory.models.asked import blocks
from deepnet_theory.models.factory import Made, told
from deepnet_theory.models.step import FinalState, of_one_seed, update

DRAWS = 3  # of targets
LEVEL = 0.95
STUDENT = LEVEL * math.sqrt(2 / (1 - LEVEL**2))  # Student's t of two degrees of freedom
MOST = 30_000_000  # parameters of a model that is stepped six times
SLIGHT = 0.05  # of ‖ΔF‖: so near, a step is as the rule's
RATE = 2.0**-10
LINEAR = 0.01  # of ‖F‖: so small, a change is in proportion to the step
SHORTER = 40  # times, at most, that a step is made shorter to be so small

Times = list[tuple[FoundMatrix, float]]  # blocks, and what multiplies their steps


class Ratio(NamedTuple):
    """How many times as much a step changes the output: the mean and its 95 % interval."""

    mean: float
    low: float
    high: float


class Effects:
    """One step of copies of a model, as it is and where differences from a rule are fixed.

    ``rates`` are the learning rates of parameters by name, in units of the usual one.
    """

    def __init__(
        self, made: Made, reading: Reading, rule: Wanted, rates: Mapping[str, float]
    ) -> None:
        self._made, self._reading, self._rule, self._rates = made, reading, rule, rates
        self._known: dict[frozenset[Difference], list[float]] = {}
        self._scale = RATE  # a step that suits one draw is where the next one starts

    def of(
        self, different: Sequence[Difference], beside: Collection[Difference] = ()
    ) -> Ratio | None:
        """‖ΔF‖ with these differences over ‖ΔF‖ without; those ``beside`` are fixed in both.

        None where one of them cannot be fixed by weights, for a model of more than ``MOST``
        parameters, and for one that cannot be copied or stepped.
        """
        parameters = self._made.module.parameters()
        if self._rule.selection is None or sum(p.numel() for p in parameters) > MOST:
            return None
        try:
            wrong, right = self._sizes(beside), self._sizes([*beside, *different])
        except DeepNetTheoryError:
            return None
        if not all(0 < size < math.inf for size in (*wrong, *right)):
            return None
        each = [math.log(a / b) for a, b in zip(wrong, right, strict=True)]
        mean, margin = fmean(each), STUDENT * stdev(each) / math.sqrt(DRAWS)
        return Ratio(*map(math.exp, (mean, mean - margin, mean + margin)))

    def _sizes(self, fixed: Collection[Difference]) -> list[float]:
        """‖ΔF‖/η on the same draws of targets, of a copy where these are fixed."""
        if (key := frozenset(fixed)) not in self._known:
            with _their_code():
                copy = replace(self._made, module=deepcopy(self._made.module))
                final = FinalState(copy, torch.Generator(), drawn=True)
            times = _fix(copy.module, self._reading, self._rule, fixed)
            self._known[key] = [self._size(seed, final, times) for seed in range(DRAWS)]
        return self._known[key]

    def _size(self, seed: int, final: FinalState, times: Times) -> float:
        """‖ΔF‖/η of one step on random targets, averaged over tokens, for small η."""
        module = final.made.module
        assert self._rule.selection is not None
        optimizer = self._rule.selection.the_optimizer
        module.zero_grad()
        with _their_code():
            final.draw(torch.Generator().manual_seed(seed))
            state, loss = final.with_loss()
            loss.backward()  # type: ignore[no-untyped-call]
        before = state.detach().double()
        with torch.no_grad():
            moving = []
            for name, p in module.named_parameters():
                if p.grad is not None:
                    step = _update(optimizer, p) * self._rates.get(name, 1.0)
                    for m, by in times:
                        for start, end in m.outputs if name in (m.name, m.bias) else ():
                            axis = m.axis if name == m.name else 0
                            step.narrow(axis, start, end - start).mul_(by)
                    moving.append((p, p.clone(), step))
            for _ in range(SHORTER):
                for p, old, step in moving:
                    torch.add(old, step, alpha=self._scale, out=p)
                moved = final().double() - before
                ratio = float(moved.norm()) / float(before.norm())
                if ratio <= LINEAR:
                    break
                self._scale *= min(0.5, 0.5 * LINEAR / ratio) if ratio < math.inf else 0.5
            for p, old, _ in moving:
                p.copy_(old)
        return float(moved.norm(dim=-1).mean()) / self._scale


def _update(optimizer: Optimizer, p: nn.Parameter) -> Tensor:
    """The first update of a parameter with a gradient, per unit of the learning rate."""
    assert p.grad is not None
    g, theta = map(of_one_seed, (p.grad, p.detach()))
    return update(optimizer.expression, 1.0, g, theta).reshape(p.shape)


@contextmanager
def _their_code() -> Iterator[None]:
    """Within it somebody's code is copied or run, and fails in its own ways: a refusal."""
    try:
        yield
    except DeepNetTheoryError:
        raise
    except Exception as error:
        raise Refusal(f"no step of the model is measured: {told(error)}") from error


@torch.no_grad()
def _fix(model: nn.Module, reading: Reading, rule: Wanted, fixed: Iterable[Difference]) -> Times:
    """Take differences away from a model's weights, and say what multiplies the steps of blocks.

    A block that several sublayers use is changed once. :class:`Refusal` where no change of weights
    takes a difference away.
    """
    times: Times = []
    done = set()

    def take(m: FoundMatrix, by: float, item: str, step: float = 1.0) -> None:
        """Multiply a block, and its bias where that stays with it, and their steps."""
        if (key := (m.name, m.outputs, item)) not in done:
            done.add(key)
            times.append((m, step))
            for view in blocks(model, m):
                view.mul_(by)
            if m.bias:
                model.get_parameter(m.bias).mul_(by)

    for d in fixed:
        s = reading.sublayers[d.index]
        ends = "" if s.kind == UNKNOWN else sublayer(s.kind).last_map[0]
        last = [m for m in s.matrices if m.role == ends]
        alone = [replace(m, bias=None) for m in s.matrices]
        if d.matrix is not None and d.ratio:
            take(replace(d.matrix, bias=None), 1 / d.ratio, d.item)
        elif d.matrix is not None and d.matrix.times:
            for view in blocks(model, d.matrix):
                view.normal_(0.0, d.wanted * d.matrix.xavier / d.matrix.times)
        elif d.item == "reads":
            read = reading_alpha(s, rule.sublayers[d.index])
            for m in (m for m in alone if m.role in read):
                take(m, 1 / d.ratio, d.item, rule.counts(1 / d.ratio))
        elif d.item.startswith(RATE_OF):
            for m in (m for m in alone if m.role == d.item.removeprefix(RATE_OF)):
                take(m, 1.0, d.item, 1 / d.ratio)
        elif d.item == "alpha" and last and "output" not in s.around and 0 < d.ratio < math.inf:
            for m in last:
                take(m, d.ratio, d.item, rule.counts(d.ratio))
        else:
            raise Refusal(f"{d.item} is not fixed by weights")
    return times
