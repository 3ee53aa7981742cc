"""Short training of stacked seeds on fresh windows of text, without warm-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from paper_checks.shared.later import Array, numeric, torch
from paper_checks.shared.stacks import Net

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

    from deepnet_theory.runtime import Model
    from paper_checks.shared.numeric import Settings, Trial

OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adagrad": "Adagrad"}


def descend(
    optimizer: str,
    parameters: Iterable[nn.Parameter],
    rate: float,
    batches: Iterable[Tensor],
    loss_of: Callable[[Tensor], Tensor],
    watch: Callable[[int], Any] = lambda step: None,
) -> Tensor:
    """The losses (steps, seeds), one step a batch; ``watch`` sees the number of every step first.

    They act entry by entry, so a stack of seeds is trained as each seed would be.
    """
    stepper = getattr(torch.optim, OPTIMIZERS[optimizer])(parameters, lr=rate)
    losses = []
    for step, batch in enumerate(batches):
        watch(step)
        stepper.zero_grad(set_to_none=True)
        loss = loss_of(batch)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        stepper.step()
        losses.append(loss.detach().clone())
    return torch.stack(losses)


def byte_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of each seed, logits (k, batch, tokens, bytes): (k,)."""
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), reduction="none"
    )
    return losses.view(len(targets), -1).mean(dim=1)


# ---- stacks of the laboratory: the matrices of the branches alone -----------------------------


def train(
    net: Net, depth: int, s: Settings, rate: float, steps: int, watch: Callable[[int, Trial], Any]
) -> Tensor:
    """The losses (steps, seeds) of a stack; ``watch`` sees it before each step.

    The data are the same for every network and rate.
    """
    trial = net.trial(depth, s)
    generator = numeric.generator_for(s.seed, "training data")
    parameters = [p for p, _ in trial.parameters()]
    for p in parameters:
        p.requires_grad_(True)

    def batches() -> Iterator[Tensor]:
        for _ in range(steps):
            yield read(trial, generator)

    return descend(
        net.optimizer,
        parameters,
        rate,
        batches(),
        lambda _: trial.loss(trial.output()),
        lambda step: watch(step, trial),
    )


def read(trial: Trial, generator: Generator) -> Tensor:
    """Let a stack see fresh windows of text."""
    s = trial.settings
    drawn = numeric.text_windows(trial.seeds * s.batch, s.tokens + 1, generator)
    windows = drawn.reshape(trial.seeds, s.batch, -1)
    trial.see(replace(trial.batch, inputs=(windows[..., :-1],), targets=windows[..., 1:]))
    return windows


# ---- whole models, embeddings and head included ------------------------------------------------


def model_constants(
    layers: int,
    alpha: float,
    beta: float,
    width: int = 32,
    placement: str = "post-ln",
    stack: str = "decoder",
    causal: bool = True,
    **architecture: Any,
) -> Constants:
    """A stack of ``layers`` layers of one part, on bytes."""
    kinds = tuple(SublayerConstants(k, alpha, beta) for k in ("attention", "ffn"))
    return Constants(
        stack=stack,
        placement=placement,
        norm="layer",
        parts=(PartConstants(stack, layers, causal, kinds),),
        architecture=Architecture(**{"width": width, "heads": 4, "vocab": 256, **architecture}),
    )


def deepnorm(layers: int, width: int = 32) -> Constants:
    """DeepNorm as published for a decoder-only stack of M layers."""
    return model_constants(layers, (2 * layers) ** 0.25, (8 * layers) ** -0.25, width)


def windows(
    steps: int,
    *,
    seed: int = 0,
    seeds: int = 1,
    batch: int = 8,
    tokens: int = 32,
    text: Tensor | None = None,
) -> Iterator[Tensor]:
    """The windows of every step, (seeds, batch, tokens + 1), of Python's documentation or text."""
    data = torch.Generator().manual_seed(seed + 1)
    for _ in range(steps):
        if text is None:
            drawn = numeric.text_windows(seeds * batch, tokens + 1, data)
        else:
            first = torch.randint(len(text) - tokens, (seeds * batch, 1), generator=data)
            drawn = text[first + torch.arange(tokens + 1)]
        yield drawn.reshape(seeds, batch, -1)


def train_model(
    constants: Constants,
    steps: int,
    rate: float,
    *,
    seed: int = 0,
    seeds: int = 1,
    start: Model | None = None,
    **other: Any,
) -> tuple[Tensor, Model]:
    """The losses (steps, seeds) of next bytes under Adam, and the trained models of all seeds.

    The windows and the first weights depend on ``seed`` alone: two placements are paired seed by
    seed. ``other`` goes to :func:`windows`.
    """
    generator = torch.Generator().manual_seed(seed)
    model = start or numeric.build(constants, seeds=seeds, generator=generator)

    def loss_of(drawn: Tensor) -> Tensor:
        return byte_loss(model(drawn[..., :-1]), drawn[..., 1:])

    batches = windows(steps, seed=seed, seeds=seeds, **other)
    return descend("adam", model.parameters(), rate, batches, loss_of), model


def byte_losses(steps: int, **chosen: Any) -> Tensor:
    """What the text's byte frequencies lose on the windows of :func:`train_model`: (steps, seeds).

    They ignore the input; paired window by window, so that it does not matter which were drawn.
    """
    share = torch.bincount(numeric.text_bytes(), minlength=256).double()
    surprise = -(share / share.sum()).log()
    return torch.stack(
        [surprise[drawn[..., 1:]].mean(dim=(1, 2)) for drawn in windows(steps, **chosen)]
    )


def ends(losses: Tensor, count: int) -> Array:
    """The mean loss of every seed over the last ``count`` steps: (seeds,)."""
    return losses[-count:].mean(dim=0).double().numpy()


def above_bytes(losses: Tensor, count: int, **chosen: Any) -> Array:
    """How far a model ends above what it knows that ignores its input, the byte frequencies.

    On the very same windows: the mean over the last ``count`` steps of every seed, (seeds,).
    """
    return ends(losses, count) - ends(byte_losses(len(losses), **chosen), count)
