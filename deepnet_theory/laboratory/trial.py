"""A case, a rule at one depth; and its trial, the stacks of all seeds with the data they see."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from deepnet_theory.definitions.constants import Architecture, Constants, PartConstants, Placed
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.rule import Rule, RuleEntry
from deepnet_theory.definitions.scheme import Scheme
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import STEPPED, Role, sublayer
from deepnet_theory.laboratory.settings import Depth, Settings, depth_key
from deepnet_theory.laboratory.stepping import arriving, backward, only
from deepnet_theory.laboratory.text import text_windows
from deepnet_theory.models.step import update
from deepnet_theory.runtime import Description, Model, described
from deepnet_theory.runtime.linear import Make

VOCAB = 256  # bytes


@dataclass(frozen=True)
class Case:
    """The stack of ``selection`` under ``rule`` at one ``depth``, on what ``settings`` say.

    A published ``scheme`` replaces the rule, with each layer's own equation and numbers.
    """

    selection: Selection
    rule: Rule
    depth: Depth
    settings: Settings
    scheme: Scheme | None = field(default=None, kw_only=True)

    @cached_property
    def constants(self) -> Constants:
        """The constants of the stack, in the settings' sizes.

        Raises :class:`~deepnet_theory.definitions.outcome.InputError` where the rule has no
        positive, finite value, or says nothing of a sublayer.
        """
        sizes = Architecture(
            width=self.settings.width,
            heads=self.settings.heads,
            ffn_ratio=self.settings.ffn_ratio,
            vocab=VOCAB,
            activation=self.settings.activation,
        )
        scheme = self.scheme
        if scheme is None:
            return Constants.of(self.selection, self.rule, self.depth, sizes)
        alike = Rule(scheme.name, tuple(RuleEntry(p.part) for p in scheme.parts))
        constants = Constants.of(self.selection, alike, self.depth, sizes)
        rates = {role: scheme.value(text, **self.depth) for role, text in scheme.rates.items()}
        parts = (replace(p, multipliers=rates) for p in constants.parts)
        return replace(constants, parts=tuple(parts))

    def layer(self, part: PartConstants, index: float) -> Sequence[Placed]:
        """The sublayers of one layer of a part, from 0; of a block of them, its middle."""
        if self.scheme is None:
            return [Placed(self.selection.the_placement, s) for s in part.sublayers]
        return self.scheme.layer_at(self._of_scheme(part.name), index + 1, **self.depth)

    def layers(self, part: PartConstants) -> Sequence[Sequence[Placed]]:
        """The layers of a part that have parameters of their own, from the bottom to the top."""
        return [self.layer(part, index) for index in range(part.layers)]

    def input_size(self, part: str) -> float:
        if self.scheme is None:
            return 1.0
        return self.scheme.value(self._of_scheme(part).embedding, **self.depth)

    def _of_scheme(self, part: str) -> RuleEntry:
        assert self.scheme is not None
        return next(p for p in self.scheme.parts if p.part == part)

    @property
    def select(self) -> dict[str, object]:
        """What was selected, as plain data; a scheme's placement has a name, or is its equation."""
        select = self.selection.to_dict()
        if self.scheme is None:
            return select
        placement = self.scheme.named_placement or self.scheme.equation
        return {**select, "placement": placement, "scheme": self.scheme.name}

    @property
    def alike(self) -> bool:
        """Whether layers have one equation and the same sublayers: m of them are one, √m as large.

        No law of such a block is known where the stream is multiplied and neither a norm nor the
        branch's own weight takes it back, or where a layer depends on its index.
        """
        if self.scheme is None:
            return True
        where = self.scheme
        x, branch = where.coefficients(2.0)
        kept = x == 1 or math.isclose(x * x + branch * branch, 1)  # the stream, or its variance
        return not self.scheme.indexed and (kept or where.normalises_sum)

    @property
    def eta_factor(self) -> float:
        return self.rule.eta_at(**self.depth)

    @property
    def branches(self) -> str:
        """What the generator of the branch weights is called: they are drawn for one depth."""
        return f"branches {depth_key(self.depth)}"


SAMPLED = 2  # layers of a part: the least that have a product of two layers' changes
# A layer by itself is 7 % short of post-LN under SGD at 8 layers, where S·r² is 1/4, and a quarter
# short of sandwich-LN, where it is 1: the blocks take that in to first order in S·r².
NEAR = 1.5  # up to this S·r² a block between two sampled layers is one layer


class Group(NamedTuple):
    """One layer of the short stack: the ``copy``-th sampled one, or a block for ``layers``."""

    copy: int | None
    layers: float


@dataclass(frozen=True)
class Sampled(Case):
    r"""Two layers of each part of a case, at relative ``places`` u ≤ v, between blocks.

    The L − 2 others are shared out as u : v − u : 1 − v, and m of them are one layer with branches
    :math:`\sqrt m` times as large, as independent branches add up to: the size does not depend on
    the depth. ``index`` tells draws of branch weights apart; the same ones are drawn at every
    depth.
    """

    places: tuple[float, float] = (1 / 3, 2 / 3)
    index: int = 0

    def groups(self, layers: int) -> Iterator[Group]:
        count = min(SAMPLED, layers)
        ends = (0.0, *self.places[:count], 1.0)
        for copy in range(count + 1):
            if (others := (layers - count) * (ends[copy + 1] - ends[copy])) > 0:
                yield Group(None, others)
            if copy < count:
                yield Group(copy, 1.0)

    def layers(self, part: PartConstants) -> Sequence[Sequence[Placed]]:
        layers, below = [], 0.0
        for group in self.groups(part.layers):
            whole = self.layer(part, max(0.0, below + (group.layers - 1) / 2))
            if group.copy is None:
                whole = [_standing_for(s, group.layers) for s in whole]
            layers.append(whole)
            below += group.layers
        return layers

    def copy_of(self, d: Description) -> int | None:
        """Which sampled layer a parameter is in; 0 for a final norm, None for all others."""
        layers = {part.name: part.layers for part in self.constants.parts}.get(d.part or "")
        if layers is None or d.layer is None:
            return None if layers is None else 0
        return list(self.groups(layers))[d.layer].copy

    def is_sampled(self, d: Description) -> bool:
        return self.copy_of(d) is not None

    @property
    def branches(self) -> str:
        """The same draws at every depth: what differs between two depths is the depth."""
        return f"sampled layers {self.index}"


def _standing_for(placed: Placed, layers: float) -> Placed:
    """The sublayer whose branch is as large as that of several together."""
    where, s = placed
    size = math.sqrt(layers)
    weighted = where.coefficients(s.alpha)[0] != 1 and not where.normalises_sum
    # a branch that is normalised does not depend on its gains; a stream weighted against its branch
    # keeps its variance where alpha says it
    if "output" in where.norms or weighted:
        return placed._replace(constants=replace(s, alpha=_weaker(where, s.alpha, size)))
    last = sublayer(s.kind).scaled[-1].name
    gains = {**s.gains, last: s.gain(last) * size}
    return placed._replace(constants=replace(s, gains=gains))


def _weaker(where: Placement, alpha: float, size: float) -> float:
    """The α of a branch that is ``size`` times as large against the stream.

    What multiplies the stream over what multiplies the branch is affine in α: α itself, or α − 1.
    """
    first, second, its = (x / branch for x, branch in map(where.coefficients, (1.0, 2.0, alpha)))
    return 1 + (its / size - first) / (second - first)


def gaussian_tokens(
    shape: tuple[int, int, int, int], correlation: float, generator: torch.Generator
) -> Tensor:
    r"""Tokens :math:`\sqrt\rho\,c + \sqrt{1-\rho}\,e_t`, c common to a sequence, of variance 1.

    (seeds, batch, tokens, width); the draws do not depend on ρ, any two tokens' correlation.
    """
    seeds, batch, _, width = shape
    common = torch.randn((seeds, batch, 1, width), generator=generator, dtype=torch.float64)
    each = torch.randn(shape, generator=generator, dtype=torch.float64)
    return math.sqrt(correlation) * common + math.sqrt(1 - correlation) * each


def generator_for(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own for each purpose, so that one draw never shifts another."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8]) >> 1)


@cache
def keep_freed_memory() -> None:
    """Let the C library keep what is freed, up to about 64 MiB, for what is asked for next.

    glibc learns from the largest block ever freed; else every gradient costs page faults.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


@dataclass(frozen=True)
class Batch:
    """What the stacks see: tokens, or vectors in their place, and what they should say.

    ``inputs`` has one a part, bytes (seeds, batch, tokens) or vectors (…, width); ``targets``
    bytes.
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor

    @staticmethod
    def joined(several: Sequence[Batch], copies: int) -> Batch:
        """The seeds of several batches, one after another, each seed ``copies`` times."""
        both = zip(*((*one.inputs, one.targets) for one in several), strict=True)
        *inputs, targets = (torch.cat(xs).repeat_interleave(copies, 0) for xs in both)
        return Batch((*inputs,), targets)


def draw_batch(
    settings: Settings, seeds: int, parts: int, draw: int = 0, vocab: int = VOCAB
) -> Batch:
    """The data of all seeds in one draw: the same at every depth and for every rule.

    Of text, consecutive windows, one a part, and the bytes that follow as targets, all modulo
    ``vocab``; else Gaussian tokens and random targets.
    """
    generator = generator_for(settings.seed, f"data {draw}")
    shape = (seeds, settings.batch, settings.tokens)
    if settings.correlation is None:
        windows = text_windows(
            seeds * settings.batch, parts * settings.tokens + 1, generator
        ).reshape(seeds, settings.batch, -1)
        windows %= vocab
        inputs = torch.split(windows[..., :-1], settings.tokens, dim=-1)
        targets = windows[..., -settings.tokens :]
    else:
        inputs = tuple(
            gaussian_tokens((*shape, settings.width), settings.correlation, generator)
            for _ in range(parts)
        )
        targets = torch.randint(vocab, shape, generator=generator)
    device, dtype = settings.torch_device, settings.torch_dtype
    return Batch(
        tuple(x.to(device, dtype if x.is_floating_point() else None) for x in inputs),
        targets.to(device),
    )


class Trial:
    """The stacked model of ``seeds`` seeds under a rule at a depth, and its data.

    Tokens, targets, embeddings and head have generators of their own: a seed sees the same ones at
    every depth. ``copies`` of a seed have branch weights of their own. The seeds of several
    ``draws`` follow one another: a draw is the same with others as by itself.
    """

    def __init__(self, case: Case, *, draws: Sequence[int] = (0,), copies: int = 1) -> None:
        self.case, self.selection, self.depth = case, case.selection, case.depth
        self.settings = settings = case.settings
        self.draws, self.copies = draws, copies
        self.seeds = len(draws) * settings.seeds * copies
        constants = case.constants
        parts, vocab = len(constants.parts), constants.architecture.vocab
        drawn = [draw_batch(settings, settings.seeds, parts, draw, vocab) for draw in draws]
        keep_freed_memory()
        kind = settings.torch_device, settings.torch_dtype
        make = Make(self.seeds, *kind, settings.step == "all")  # nothing is drawn yet
        self.model = Model(constants, make, {p.name: case.layers(p) for p in constants.parts})
        self.model.requires_grad_(False)
        self._described = list(described(self.model))
        self._owners = {
            id(p): (own, name)
            for module in self.model.modules()
            for own in [module._parameters]
            for name, p in own.items()
        }
        self._draw()
        self.see(Batch.joined(drawn, copies))
        self.rates = {id(p): self._rate(d) for p, d in self._described}

    @torch.no_grad()
    def see(self, batch: Batch) -> None:
        """Take these data for what follows."""
        self.batch = batch
        given = self.settings.correlation is not None
        sizes = [self.case.input_size(part) for part in self.model.parts]
        self.inputs = [
            size * (x if given else self.model.embed(x))
            for size, x in zip(sizes, batch.inputs, strict=True)
        ]

    @torch.no_grad()
    def _draw(self) -> None:
        """Draw all seeds as ``build`` does."""
        seed, device = self.settings.seed, self.settings.torch_device
        # A seed sees the same embedding and head at every depth and under every rule, so that its
        # own scatter leaves its slope and its differences alone.
        generators = [
            [generator_for(seed, f"{what} {draw}", device) for draw in self.draws]
            for what in ("embedding and head", self.case.branches)
        ]
        for parameter, d in self._described:
            if d.is_matrix:
                dense = parameter if parameter.is_contiguous() else parameter.mT
                outer = d.role in (Role.EMBEDDING, Role.HEAD)
                drawn = zip(dense.chunk(len(self.draws)), generators[not outer], strict=True)
                for of_draw, generator in drawn:
                    if outer:
                        one = torch.empty_like(of_draw[: self.settings.seeds])
                        one.normal_(0.0, d.std, generator=generator)
                        of_draw.copy_(one.repeat_interleave(self.copies, 0))
                    else:
                        of_draw.normal_(0.0, d.std, generator=generator)
            else:
                parameter.fill_(d.gain)

    def put(self, parameter: nn.Parameter, value: Tensor) -> None:
        """Have the model compute with a tensor in place of a parameter."""
        own, name = self._owners[id(parameter)]
        own[name] = value  # type: ignore[assignment]

    def output(self) -> Tensor:
        """F, the stack's output before the head, final norm included: (k, batch, tokens, d)."""
        *memory, x = self.inputs
        output: Tensor = self.model.body(x, *memory)
        return output

    def loss(self, output: Tensor) -> Tensor:
        """The mean cross-entropy over tokens of each seed: (k,)."""
        logits = self.model.logits(output)
        losses = functional.cross_entropy(
            logits.flatten(0, -2), self.batch.targets.flatten(), reduction="none"
        )
        return losses.view(self.seeds, -1).mean(dim=1)

    def _rate(self, d: Description) -> float:
        own = 1.0
        if d.part is not None and d.sublayer is not None:
            own = self.case.constants.parameter(d.part, d.sublayer, d.name, d.role).rate
        return self.case.eta_factor * own

    def rate(self, parameter: nn.Parameter) -> float:
        """What the rule multiplies the learning rate of one parameter by, κ included."""
        return self.rates[id(parameter)]

    def parameters(self) -> list[tuple[nn.Parameter, Description]]:
        """The parameters that are stepped."""
        return [(p, d) for p, d in self._described if d.role in STEPPED[self.settings.step]]

    def change(self, parameter: nn.Parameter, gradient: Tensor) -> Tensor:
        """The update of a parameter by this gradient, per unit of the learning rate."""
        expression = self.selection.the_optimizer.expression
        return update(expression, self.rate(parameter), gradient, parameter.detach())

    def changes(self, parameters: Sequence[nn.Parameter]) -> dict[int, Tensor]:
        """:meth:`change` of each of these parameters by its ``id``."""
        found = dict[int, Tensor]()

        def take(p: nn.Parameter, gradient: Tensor) -> None:
            found[id(p)] = self.change(p, gradient)

        with only(self.model, parameters), arriving(parameters, take):
            backward(self.loss(self.output()))
        return found
