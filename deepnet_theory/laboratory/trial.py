"""A trial: the stacks of all seeds at one depth, with the data that they see."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from deepnet_theory.definitions.sublayer import STEPPED, Role
from deepnet_theory.laboratory.case import VOCAB, Case
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.stepping import arriving, backward, only
from deepnet_theory.laboratory.text import text_windows
from deepnet_theory.models.step import update
from deepnet_theory.runtime import Description, Model, described
from deepnet_theory.runtime.linear import Make


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

    def of_seeds(self, seeds: list[int]) -> Batch:
        return Batch(tuple(x[seeds] for x in self.inputs), self.targets[seeds])


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
    every depth. ``copies`` of a seed have branch weights of their own.
    """

    def __init__(self, case: Case, *, draw: int = 0, copies: int = 1) -> None:
        self.case, self.selection, self.depth = case, case.selection, case.depth
        self.settings = settings = case.settings
        self.draw, self.copies = draw, copies
        self.seeds = settings.seeds * copies
        constants = case.constants
        parts, vocab = len(constants.parts), constants.architecture.vocab
        order = [seed for seed in range(settings.seeds) for _ in range(copies)]
        batch = draw_batch(settings, settings.seeds, parts, draw, vocab).of_seeds(order)
        keep_freed_memory()
        kind = settings.torch_device, settings.torch_dtype
        make = Make(self.seeds, *kind, settings.step == "all")  # nothing is drawn yet
        self.model = Model(constants, make, {p.name: case.layers(p) for p in constants.parts})
        self.model.requires_grad_(False)
        self._described = list(described(self.model))
        self._draw()
        self.see(batch)
        self.eta_factor = case.eta_factor
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
        draw = self.draw
        seed, device = self.settings.seed, self.settings.torch_device
        # A seed sees the same embedding and head at every depth and under every rule, so that its
        # own scatter leaves its slope and its differences alone.
        outer = generator_for(seed, f"embedding and head {draw}", device)
        inner = generator_for(seed, f"{self.case.branches} {draw}", device)
        for parameter, d in self._described:
            if d.is_matrix:
                dense = parameter if parameter.is_contiguous() else parameter.mT
                if d.role in (Role.EMBEDDING, Role.HEAD):
                    one = torch.empty_like(dense[: self.seeds // self.copies])
                    one.normal_(0.0, d.std, generator=outer)
                    dense.copy_(one.repeat_interleave(self.copies, 0))
                else:
                    dense.normal_(0.0, d.std, generator=inner)
            else:
                parameter.fill_(d.gain)

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
        if d.part is None or d.sublayer is None:
            return 1.0
        return self.model.constants.parameter(d.part, d.sublayer, d.name, d.role).rate

    def rate(self, parameter: nn.Parameter) -> float:
        """What the rule multiplies the learning rate of one parameter by, κ included."""
        return self.eta_factor * self.rates[id(parameter)]

    def parameters(
        self, roles: Iterable[Role] | None = None
    ) -> list[tuple[nn.Parameter, Description]]:
        wanted = STEPPED[self.settings.step] if roles is None else frozenset(roles)
        return [(p, d) for p, d in self._described if d.role in wanted]

    def change(self, parameter: nn.Parameter, gradient: Tensor) -> Tensor:
        """The update of one parameter that this gradient makes, per unit of the learning rate."""
        expression = self.selection.the_optimizer.expression
        return update(expression, self.rate(parameter), gradient, parameter.detach())

    def changes(self, parameters: Sequence[nn.Parameter]) -> dict[int, Tensor]:
        """The update of each of these parameters, per unit of the learning rate, by its ``id``."""
        found = dict[int, Tensor]()

        def take(p: nn.Parameter, gradient: Tensor) -> None:
            found[id(p)] = self.change(p, gradient)

        with only(self.model, parameters), arriving(parameters, take):
            backward(self.loss(self.output()))
        return found
