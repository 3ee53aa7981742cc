"""What one recorded forward pass says of somebody's model: plain data.

``models`` makes it, by what the operations do, and looks at no name of a module: names lie. What
fits no known form is named as not understood, and what follows from it is for others to say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path

from deepnet_theory.definitions.placement import PLACEMENTS
from deepnet_theory.definitions.selection import PLAIN_LAYER, described_layer

UNKNOWN = "unknown"
EXACT = 0.01  # of a coefficient that code computes: published constants have two decimals
NEAR = 0.05  # of a measured power: nearer to 0 or 1, it is taken as that


@dataclass(frozen=True)
class Line:
    """The line of somebody's code that called an operation, and the module whose method it is."""

    file: str
    number: int
    module: str

    @property
    def place(self) -> str:
        """The file's name and the line's number."""
        return f"{Path(self.file).name}:{self.number}"

    def __str__(self) -> str:
        return f"{self.module} at {self.place}"


@dataclass(frozen=True)
class FoundMatrix:
    """A block of a parameter with one role: ``outputs`` are runs of its outputs.

    ``role`` is a name of ``definitions/sublayers`` or ``unknown``. ``axis`` is that of the outputs:
    0 in a Linear, 1 in a Conv1D, 1 or 2 of stacked experts. ``computed``: the forward pass makes it
    from the parameter. ``entries`` is their root mean square, ``spread`` its standard error.
    ``times`` are the numbers that multiply what enters the matrix and what leaves it; a query's are
    those of the scores too, relative to 1/√k. ``before`` is what its bias has not of them.
    """

    name: str
    role: str
    axis: int
    outputs: tuple[tuple[int, int], ...]
    fan_in: int
    fan_out: int
    bias: str | None = None
    whole: bool = True  # these are all outputs of the parameter
    computed: bool = False
    entries: float = float("nan")
    spread: float = 0.0
    times: float = 1.0
    before: float = 1.0

    @property
    def size(self) -> float:
        """The root mean square of the entries in the branch."""
        return self.entries * self.times

    @property
    def error(self) -> float:
        """The standard error of the size."""
        return self.spread * self.times

    @property
    def xavier(self) -> float:
        r"""Xavier's standard deviation, :math:`\sqrt{2/(\text{fan\_in} + \text{fan\_out})}`."""
        return math.sqrt(2 / (self.fan_in + self.fan_out))

    @property
    def rows(self) -> list[int] | list[list[int]]:
        """The outputs as ``[start, end]``, or a list of such where they are interleaved."""
        runs = [list(run) for run in self.outputs]
        return runs[0] if len(runs) == 1 else runs

    @property
    def where(self) -> str:
        """The block as one would write it in code."""
        if self.whole:
            return self.name
        start, end = self.outputs[0]
        several = f", … {len(self.outputs)} blocks" if len(self.outputs) > 1 else ""
        span = f"{start}:{end}{several}"
        return f"{self.name}[{':, ' * self.axis}{span}]"

    def code(self, change: str) -> str:
        """A line of code that makes a ``change`` of ``{}`` to each block in a model's parameter."""
        whole, columns = f'model.get_parameter("{self.name}").data', ":, " * self.axis
        if self.whole:
            return change.format(whole)
        if len(self.outputs) > 1:
            return f"for i, j in {self.rows}: {change.format(f'{whole}[{columns}i:j]')}"
        start, end = self.outputs[0]
        return change.format(f"{whole}[{columns}{start}:{end}]")


@dataclass(frozen=True)
class FoundNorm:
    """A norm and where it stands; ``size`` is the root mean square of its gain.

    On the residual ``sum``, at the branch's ``input`` or ``output``, ``within`` it as its kind has
    it, ``inside`` as no kind does, on queries and keys alone (``scores``); of no sublayer at the
    ``start`` or end (``final``) of a stack. ``enters`` are the roles that multiply what it gives.
    """

    where: str
    centred: bool
    gain: str | None
    bias: str | None
    size: float
    enters: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundTable:
    """Rows that a stream starts from: ``times`` those of the parameter ``name``, of rms ``size``.

    ``of_inputs``: the inputs choose them, as tokens do. Without a name, as sinusoids are.
    """

    stack: str
    name: str
    rows: int
    times: float
    size: float
    of_inputs: bool


@dataclass(frozen=True)
class Logits:
    """What a language model's ``head`` makes of a final state of rms ``state``.

    ``loss`` is of targets drawn evenly, without the head's bias (of rms ``bias``);
    ``loss_at_one`` where every stream starts at rms 1.
    """

    head: FoundMatrix
    state: float
    bias: float
    loss: float
    loss_at_one: float

    @property
    def even(self) -> float:
        """The loss of even probabilities, the logarithm of the vocabulary."""
        return math.log(self.head.fan_out)


def residual_equation(norms: frozenset[str], alpha: str = "") -> str:
    """The equation with these norms, and with α, a name or a number, where one is given."""
    inner = "branch(norm(x))" if "input" in norms else "branch(x)"
    inner = f"norm({inner})" if "output" in norms else inner
    if "sum" in norms:
        return f"norm({alpha and alpha + '*'}x + {inner})"
    return f"x + {inner}{alpha and '/' + alpha}"


@dataclass(frozen=True)
class FoundSublayer:
    r"""One residual sublayer, :math:`a x + b\,G(x)`, with a norm or not around either.

    ``stream`` is a, ``branch`` is b; ``learnt`` names the parameter that one of them is, and then
    the number is its root mean square. ``carried`` is the product of the a since the last norm on
    the stream, this one left out. ``sums`` counts the stack's residual sums, for branches in
    parallel; ``why`` says what left matrices without a role.
    ``activation`` is that between fc1 and fc2, or of those built here the one most like it;
    ``scores`` what multiplies the scores of queries and keys, relative to 1/√k.
    ``line`` is that of the code that adds the branch to the stream.
    """

    stack: str
    layer: int
    kind: str
    sums: int
    stream: float
    branch: float
    norms: tuple[FoundNorm, ...]
    matrices: tuple[FoundMatrix, ...]
    learnt: str | None = None
    biases: tuple[str, ...] = ()
    carried: float = 1.0
    why: str = ""
    activation: str = ""
    scores: float = 1.0
    line: Line | None = None

    @property
    def in_gain(self) -> FoundSublayer:
        """The same, a gain that is not 1 of the norm behind its branch taken as its multiplier."""
        outer = next((n for n in self.norms if n.where == "output" and n.gain), None)
        if outer is None or math.isclose(outer.size, 1, abs_tol=EXACT):
            return self
        return replace(self, branch=self.branch * outer.size, learnt=self.learnt or outer.gain)

    @property
    def alpha(self) -> float:
        r"""What the stream is multiplied by against the branch; infinite for no branch.

        a/b where a norm reads the sum; else of :math:`x_l = y_l \prod_{j<l} a_j` the sum is
        :math:`y_l + G(y_l)\, b_l / \prod_{j \le l} a_j`, and α grows with the layer.
        """
        return self.carried * self.stream / self.branch if self.branch else float("inf")

    @property
    def alpha_on(self) -> str | None:
        """What the model's code multiplies, None where it multiplies nothing."""
        if self.stream != 1:
            return "stream"
        return "branch" if self.branch != 1 else None

    @cached_property
    def around(self) -> frozenset[str]:
        """Where norms stand, as a placement says it."""
        return frozenset(n.where for n in self.norms) & {"sum", "input", "output"}

    @property
    def placed_norms(self) -> tuple[FoundNorm, ...]:
        """The norms of its residual equation; those within a branch are of a kind of their own."""
        return tuple(n for n in self.norms if n.where in self.around)

    @property
    def ruled_norms(self) -> tuple[FoundNorm, ...]:
        """The norms that a rule speaks of: all but those of queries and keys."""
        return tuple(n for n in self.norms if n.where != "scores")

    @property
    def equation(self) -> str:
        """The residual equation as ``definitions/placements`` write it, alpha left out."""
        return residual_equation(self.around)


def by_sum(sublayers: Iterable[FoundSublayer]) -> Iterator[list[FoundSublayer]]:
    """The branches of each residual sum."""
    return (list(beside) for _, beside in groupby(sublayers, lambda s: (s.stack, s.sums)))


def _used(beside: list[FoundSublayer]) -> Iterator[str]:
    """The parameters of the branches of one sum: norms once, all others for each branch."""
    for s in beside:
        yield from dict.fromkeys(m.where for m in s.matrices)
    yield from dict.fromkeys(n.gain for s in beside for n in s.ruled_norms if n.gain)


def described(row: Iterable[FoundSublayer]) -> str:
    kinds = ((s.kind, s is not beside[0]) for beside in by_sum(row) for s in beside)
    return described_layer(kinds, ",")


@dataclass(frozen=True)
class Reading:
    """The residual stacks of a model, in the order of the forward pass.

    ``norms`` are of no sublayer; ``stream`` the root mean square of what enters each stack, made of
    ``embeddings`` and understood as ``tables``; ``head`` and ``logits`` likewise what it ends in.
    ``unused`` parameters do not reach the output; ``notes`` and ``skips`` are what was not
    understood.
    """

    sublayers: tuple[FoundSublayer, ...]
    norms: tuple[FoundNorm, ...]
    stream: dict[str, float]
    embeddings: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    tables: tuple[FoundTable, ...] = ()
    logits: Logits | None = None

    @cached_property
    def stacks(self) -> dict[str, list[FoundSublayer]]:
        return {name: list(rows) for name, rows in groupby(self.sublayers, lambda s: s.stack)}

    @cached_property
    def layers(self) -> dict[str, int]:
        return {name: rows[-1].layer + 1 for name, rows in self.stacks.items()}

    @property
    def in_gains(self) -> Reading:
        """The same, gains that are not 1 of norms behind branches taken as their multipliers."""
        return replace(self, sublayers=tuple(s.in_gain for s in self.sublayers))

    @property
    def placement(self) -> str | None:
        """The placement whose norms are the model's in every sublayer, with an α or without one."""
        around = {s.around for s in self.sublayers}
        on = {s.alpha_on for s in self.sublayers}
        fitting = [p for p in PLACEMENTS.values() if {p.norms} == around]
        fitting.sort(key=lambda p: (p.coefficients(2.0)[1] != 1) != ("branch" in on))
        return fitting[0].name if fitting else None

    @property
    def uniform(self) -> bool:
        """Whether the layers of each stack have the same sublayers."""
        return all(len(set(texts)) == 1 for texts in self.layer_texts)

    @cached_property
    def layer_texts(self) -> list[list[str]]:
        """Every layer of every stack as a selection says it."""
        by_layer = (groupby(rows, lambda s: s.layer) for rows in self.stacks.values())
        return [[described(row) for _, row in layers] for layers in by_layer]

    @cached_property
    def select(self) -> dict[str, str]:
        """The stacks by their first layers as a selection says them, and the placement's name."""
        layers = [texts[0] for texts in self.layer_texts]
        if len(layers) > 1 and layers[0] == PLAIN_LAYER:
            layers = layers[1:]
        centred = all(n.centred for s in self.sublayers for n in s.placed_norms)
        return {
            **({"placement": self.placement} if self.placement else {}),
            "norm": "layer" if centred else "rms",
            "stack": "-".join(self.stacks),
            "layer": ";".join(layers),
        }

    def said_ways(self) -> str:
        """Each residual equation with the first layer that has it."""
        first = {s.equation: f"layer {s.layer} of the {s.stack}" for s in self.sublayers[::-1]}
        return "; ".join(f"{where}: {equation}" for equation, where in [*first.items()][::-1])

    @property
    def starts(self) -> dict[str, float]:
        normed = any(n.where == "start" for n in self.norms)
        return {} if normed else dict(self.stream)

    @cached_property
    def shared(self) -> str:
        """A parameter that several residual sums use; "" where there is none."""
        users = Counter(name for beside in by_sum(self.sublayers) for name in _used(beside))
        return next((name for name, count in users.items() if count > 1), "")

    @property
    def strange(self) -> tuple[str, ...]:
        """The matrices of branches whose role was not understood."""
        unknown = (m.where for s in self.sublayers for m in s.matrices if m.role == UNKNOWN)
        return tuple(dict.fromkeys(unknown))

    @property
    def understood(self) -> bool:
        return not self.notes and not self.strange
