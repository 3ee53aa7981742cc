r"""What differences do to one step: measured on the model as it is, beside a copy that is fixed.

On the copy, weights take the rule's gains. Where α differs, the last matrix of the branch carries
it: αx + cWh is α'x + Wh up to a factor for :math:`c = \alpha/\alpha'`, and cW moves as W does there
if its step, of degrees p and q, is multiplied by :math:`c^{1 + p - q}`. The same holds of a matrix
that reads a multiple of its input.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from statistics import geometric_mean
from typing import NamedTuple

import torch
from torch import Tensor

from deepnet_theory.definitions.outcome import InputError, MissingExtraError, Refusal
from deepnet_theory.definitions.reading import UNKNOWN, Matrix, Reading
from deepnet_theory.definitions.subject import Difference, Wanted, reading_alpha
from deepnet_theory.definitions.sublayer import sublayer
from deepnet_theory.models.factory import Made
from deepnet_theory.models.fitting import blocks, multiplier
from deepnet_theory.models.step import change_of_step, library_optimizer

DRAWS = 6  # of targets: the lowest and the highest of six enclose the median with 97 %
MOST = 30_000_000  # parameters of a model that is stepped twelve times
SLIGHT = 0.05  # of ‖ΔF‖: so near, a step is as the rule's


class Ratio(NamedTuple):
    """How many times as much a step changes the output: the mean and the range of six draws."""

    mean: float
    low: float
    high: float

    @property
    def is_one(self) -> bool:
        return self.low >= 1 - SLIGHT and self.high <= 1 + SLIGHT


class Effects:
    """One step of a model against one step of copies where differences from a rule are fixed.

    ``rates`` are the learning rates of parameters by name, in units of the usual one.
    """

    def __init__(
        self, made: Made, reading: Reading, rule: Wanted, rates: Mapping[str, float]
    ) -> None:
        self._made, self._reading, self._rule, self._rates = made, reading, rule, rates
        self._known: dict[frozenset[Difference], list[float]] = {}

    def of(
        self, different: Sequence[Difference], beside: Collection[Difference] = ()
    ) -> Ratio | None:
        """‖ΔF‖ with these differences over ‖ΔF‖ without; those ``beside`` are fixed in both.

        None where one of them cannot be fixed by weights, where no library has the optimizer, and
        for a model of more than ``MOST`` parameters.
        """
        try:
            wrong, right = self._sizes(beside), self._sizes([*beside, *different])
        except (Refusal, InputError, MissingExtraError, RuntimeError, TypeError):
            return None  # somebody's module may not be copied
        if not all(0 < size < math.inf for size in (*wrong, *right)):
            return None
        each = [a / b for a, b in zip(wrong, right, strict=True)]
        return Ratio(geometric_mean(each), min(each), max(each))

    def _sizes(self, fixed: Collection[Difference]) -> list[float]:
        """‖ΔF‖/η on the same draws of targets, of a copy where these are fixed."""
        if (known := self._known.get(frozenset(fixed))) is not None:
            return known
        selection = self._rule.selection
        reference = None if selection is None else selection.the_optimizer.reference
        if reference is None:
            raise Refusal("no library has the rule's optimizer")
        if (count := sum(p.numel() for p in self._made.module.parameters())) > MOST:
            raise Refusal(f"{count} parameters are not stepped {2 * DRAWS} times")
        copy = _Copy(self._made, self._rule.degrees or (0.0, 0.0), self._rates)
        for d in fixed:
            copy.fix(self._reading, d)
        make = library_optimizer(reference)
        sizes, scale = list[float](), 1.0
        for seed in range(DRAWS):  # a scale that suits one draw is where the next one starts
            size, scale = change_of_step(copy.made, make, copy.changed, seed, scale)
            sizes.append(size)
        self._known[frozenset(fixed)] = sizes
        return sizes


class _Copy:
    """A copy of a model, and what multiplies the steps of its parameters and of their blocks."""

    def __init__(
        self, made: Made, degrees: tuple[float, float], rates: Mapping[str, float]
    ) -> None:
        self.made = replace(made, module=deepcopy(made.module))
        self._degrees, self._rates = degrees, rates
        self._times: list[tuple[Matrix, float]] = []
        self._done: set[object] = set()

    def changed(self, name: str, step: Tensor) -> Tensor:
        """The step of a parameter at its own rate, its blocks' as the rule moves them."""
        step = step * self._rates.get(name, 1.0)
        for m, times in self._times:
            for start, end in m.outputs if name in (m.name, m.bias) else ():
                step.narrow(m.axis if name == m.name else 0, start, end - start).mul_(times)
        return step

    @torch.no_grad()
    def fix(self, reading: Reading, d: Difference) -> None:
        """Take one difference away; :class:`Refusal` where no change of weights does."""
        s, model = reading.sublayers[d.index], self.made.module
        ends = "" if s.kind == UNKNOWN else sublayer(s.kind).last_map[0]
        last = [m for m in s.matrices if m.role == ends]
        if d.matrix is not None and d.ratio:
            self._multiply(d.matrix, 1 / d.ratio, d.item)
        elif d.matrix is not None and d.matrix.times:
            for view in blocks(model, d.matrix):
                view.normal_(0.0, d.wanted * d.matrix.xavier / d.matrix.times)
        elif d.item == "reads":
            for m in (m for m in s.matrices if m.role in reading_alpha(s)):
                self._carry(m, 1 / d.ratio, d.item, with_bias=False)
        elif d.item.startswith("rate of "):
            for m in (m for m in s.matrices if m.role == d.item[len("rate of ") :]):
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
        for view in blocks(self.made.module, m):
            view.mul_(by)
        return True

    def _carry(self, m: Matrix, by: float, item: str, with_bias: bool = True) -> None:
        """Multiply a block, its bias and its step: it moves as the block without the factor."""
        if self._multiply(m, by, item):
            p, q = self._degrees
            self._step(m if with_bias else replace(m, bias=None), math.pow(by, 1 + p - q), item)
            if m.bias and with_bias:
                self.made.module.get_parameter(m.bias).mul_(by)

    def _step(self, m: Matrix, by: float, item: str) -> None:
        """Multiply the steps of a block and of its bias, once."""
        if (key := (m.name, m.outputs, f"step, {item}")) not in self._done:
            self._done.add(key)
            self._times.append((m, by))
