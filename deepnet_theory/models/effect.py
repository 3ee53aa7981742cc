r"""What differences do to one step: measured on the model as it is, and where they are fixed.

Weights take the rule's gains. Where α differs, the last matrix of the branch carries it: αx + cWh
is α'x + Wh up to a factor for :math:`c = \alpha/\alpha'`, and cW moves as W does there if its step,
of degrees p and q, is multiplied by :math:`c^{1 + p - q}`. The same holds of a matrix that reads a
multiple of its input.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.outcome import DeepNetTheoryError, Refusal
from deepnet_theory.definitions.reading import UNKNOWN, Matrix, Reading
from deepnet_theory.definitions.subject import RATE_OF, Difference, Wanted, reading_alpha
from deepnet_theory.definitions.sublayer import sublayer
from deepnet_theory.models.asked import blocks, multiplier
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


class Ratio(NamedTuple):
    """How many times as much a step changes the output: the mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def is_one(self) -> bool:
        return self.low >= 1 - SLIGHT and self.high <= 1 + SLIGHT


class Effects:
    """One step of a copy of a model, as it is and where differences from a rule are fixed.

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
        if self._rule.selection is None or self._parameters > MOST:
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

    @property
    def _parameters(self) -> int:
        return sum(p.numel() for p in self._made.module.parameters())

    @cached_property
    def _final(self) -> FinalState:
        """A copy's final state, on targets to be drawn."""
        with _their_code():
            copy = replace(self._made, module=deepcopy(self._made.module))
            return FinalState(copy, None, torch.Generator(), drawn=True)

    def _sizes(self, fixed: Collection[Difference]) -> list[float]:
        """‖ΔF‖/η on the same draws of targets, where these are fixed."""
        known = self._known.get(frozenset(fixed))
        if known is None:
            fixes = _Fixes(self._final.made, self._reading, self._rule, self._rates)
            try:
                for d in fixed:
                    fixes.fix(d)
                known = [self._size(seed, fixes) for seed in range(DRAWS)]
            finally:
                fixes.restore()
            self._known[frozenset(fixed)] = known
        return known

    def _size(self, seed: int, fixes: _Fixes) -> float:
        """‖ΔF‖/η of one step on random targets, averaged over tokens, for small η."""
        final, module = self._final, self._final.made.module
        assert self._rule.selection is not None
        optimizer = self._rule.selection.the_optimizer
        final.draw(torch.Generator().manual_seed(seed))
        module.zero_grad()
        with _their_code():
            state, loss = final.with_loss()
            loss.backward()  # type: ignore[no-untyped-call]
        before = state.detach().double()
        with torch.no_grad():
            moving = [
                (p, p.clone(), fixes.changed(name, _update(optimizer, p)))
                for name, p in module.named_parameters()
                if p.grad is not None
            ]
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
    return update(optimizer.expression, 1.0, g, theta).reshape(p.shape).clone()


@contextmanager
def _their_code() -> Iterator[None]:
    """Within it somebody's code is copied or run, and fails in its own ways: a refusal."""
    try:
        yield
    except DeepNetTheoryError:
        raise
    except Exception as error:
        raise Refusal(f"no step of the model is measured: {told(error)}") from error


class _Fixes:
    """Changes of a model's weights, and what multiplies the steps of parameters and blocks."""

    def __init__(
        self, made: Made, reading: Reading, rule: Wanted, rates: Mapping[str, float]
    ) -> None:
        self._module, self._rates = made.module, rates
        self._reading, self._rule = reading, rule
        self._kept = {name: p.detach().clone() for name, p in made.module.named_parameters()}
        self._times: list[tuple[Matrix, float]] = []
        self._done: set[object] = set()

    @torch.no_grad()
    def restore(self) -> None:
        """Take all changes back."""
        for name, p in self._module.named_parameters():
            p.copy_(self._kept[name])

    def changed(self, name: str, step: Tensor) -> Tensor:
        """The step of a parameter at its own rate, its blocks' as the rule moves them."""
        if (rate := self._rates.get(name, 1.0)) != 1:
            step = step * rate
        for m, times in self._times:
            for start, end in m.outputs if name in (m.name, m.bias) else ():
                step.narrow(m.axis if name == m.name else 0, start, end - start).mul_(times)
        return step

    @torch.no_grad()
    def fix(self, d: Difference) -> None:
        """Take one difference away; :class:`Refusal` where no change of weights does."""
        s, model = self._reading.sublayers[d.index], self._module
        ends = "" if s.kind == UNKNOWN else sublayer(s.kind).last_map[0]
        last = [m for m in s.matrices if m.role == ends]
        if d.matrix is not None and d.ratio:
            self._multiply(d.matrix, 1 / d.ratio, d.item)
        elif d.matrix is not None and d.matrix.times:
            for view in blocks(model, d.matrix):
                view.normal_(0.0, d.wanted * d.matrix.xavier / d.matrix.times)
        elif d.item == "reads":
            read = reading_alpha(s, self._rule.sublayers[d.index])
            for m in (m for m in s.matrices if m.role in read):
                self._carry(m, 1 / d.ratio, d.item, with_bias=False)
        elif d.item.startswith(RATE_OF):
            for m in (m for m in s.matrices if m.role == d.item.removeprefix(RATE_OF)):
                self._step(replace(m, bias=None), 1 / d.ratio, d.item)
        elif d.item == "alpha" and s.learnt:
            multiplier(model, s.learnt).mul_(d.ratio)
        elif d.item == "alpha" and last and "output" not in s.around and 0 < d.ratio < math.inf:
            for m in last:
                self._carry(m, d.ratio, d.item)
        else:
            raise Refusal(f"{d.item} is not fixed by weights")

    def _multiply(self, m: Matrix, by: float, item: str) -> bool:
        """Multiply a block, once however many sublayers use it."""
        if (key := (m.name, m.outputs, item)) in self._done:
            return False
        self._done.add(key)
        for view in blocks(self._module, m):
            view.mul_(by)
        return True

    def _carry(self, m: Matrix, by: float, item: str, with_bias: bool = True) -> None:
        """Multiply a block, its bias and its step: it moves as the block without the factor."""
        if self._multiply(m, by, item):
            self._step(m if with_bias else replace(m, bias=None), self._rule.counts(by), item)
            if m.bias and with_bias:
                self._module.get_parameter(m.bias).mul_(by)

    def _step(self, m: Matrix, by: float, item: str) -> None:
        """Multiply the steps of a block and of its bias, once."""
        if (key := (m.name, m.outputs, f"step, {item}")) not in self._done:
            self._done.add(key)
            self._times.append((m, by))
