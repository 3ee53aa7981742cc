"""What the claims measure on the runtime's own stacks: one step, or one backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from deepnet_theory.definitions.rule import Rule, own_rule
from deepnet_theory.definitions.selection import Selection
from paper_checks.shared.claim import Context
from paper_checks.shared.fitting import Fit, columns, settled
from paper_checks.shared.later import Array, np, numeric, torch
from paper_checks.shared.rules import SCALED

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deepnet_theory.definitions.expression import Expression
    from deepnet_theory.runtime import Description
    from paper_checks.shared.numeric import Settings, Trial

    Arrays = dict[str, Array]
    Chosen = Callable[[Description], bool]
    Scale = Callable[[Description], float]


@dataclass(frozen=True)
class Net:
    """A network with a rule: α, β and the learning rate's factor as texts in N (decoder: M)."""

    alpha: str = "1"
    beta: str = "1"
    optimizer: str = "sgd"
    placement: str = "post-ln"
    eta: str = "1"
    layer: str | None = None
    stack: str = "encoder"

    @property
    def selection(self) -> Selection:
        """The selection of the package."""
        return Selection(
            optimizer=self.optimizer, placement=self.placement, layer=self.layer, stack=self.stack,
            closure="published",
        )  # fmt: skip

    @property
    def rule(self) -> Rule:
        """α, β and η as a rule of the package."""
        return replace(own_rule((self.stack,), self.alpha, self.beta), eta=self.eta)

    def depth(self, layers: int) -> dict[str, int]:
        """The number of layers, under the stack's own symbol."""
        return {self.selection.the_stack.depths[0]: layers}

    def trial(self, layers: int, settings: Settings, scale: Scale | None = None) -> Trial:
        """The stacks of all seeds; ``scale`` multiplies each matrix after it was drawn."""
        trial = numeric.Trial(numeric.Case(self.selection, self.rule, self.depth(layers), settings))
        if scale is not None:
            for parameter, description in trial.parameters():
                parameter.mul_(scale(description))
        return trial


PLAIN = Net()
DEEPNORM = Net("(2*N)**(1/4)", "(8*N)**(-1/4)")  # as published


def settings(context: Context, **other: Any) -> Settings:
    """Small stacks in a quick run, the laboratory's default ones in a full run."""
    base: dict[str, Any] = {
        "width": context.pick(32, 64),
        "tokens": context.pick(16, 32),
        "batch": 2,
        "seeds": 8,
        "seed": context.seed,
        "device": "cpu",
    }
    return numeric.Settings(**{**base, **other})


def small(context: Context, **other: Any) -> Settings:
    """Small stacks of one sequence, the same in a quick run and in a full one."""
    base = {"width": 32, "tokens": 16, "seeds": 8, "seed": context.seed, "device": "cpu"}
    return numeric.Settings(**{**base, **other})


VARIATIONS: dict[str, dict[str, Any]] = {
    "width 64": {"width": 64},
    "width 128": {"width": 128},
    "64 tokens": {"tokens": 64},
    "independent tokens": {"data": "gaussian:0"},
    "correlated tokens": {"data": "gaussian:0.9"},
    "one head": {"heads": 1},
    "GELU": {"activation": "gelu"},
}


def variations(context: Context, only: tuple[str, ...] = (), **other: Any) -> dict[str, Settings]:
    """One setting in a quick run; in a full run width, length, data, heads and activation vary.

    The variations are of the quick run's sizes, each changed in one respect, beside a base of
    the full run's; ``only`` names those that a costly claim takes.
    """
    base = settings(context, **other)
    return {**varied(context, only, **other), "text": base}


def varied(context: Context, only: tuple[str, ...] = (), **other: Any) -> dict[str, Settings]:
    """The same with a base of the quick run's sizes, for what needs depth or many seeds."""
    small = settings(replace(context, full=False), **other)
    if not context.full:
        return {"text": small}
    wanted = only or tuple(n for n in VARIATIONS if n != "width 64")
    return {"text": small, **{n: replace(small, **VARIATIONS[n]) for n in wanted}}


def lots(s: Settings, count: int) -> list[Settings]:
    """The seeds in ``count`` lots, to be measured one after another in a part of the memory."""
    return [replace(s, seed=s.seed + n, seeds=s.seeds // count) for n in range(count)]


def depths(context: Context) -> tuple[int, ...]:
    """Layers measured."""
    return context.pick((12, 36, 108), (16, 48, 144))


def shallow(context: Context) -> tuple[int, ...]:
    """Fewer ones, for what is settled from the start."""
    return context.pick((8, 16, 32, 64), (8, 16, 32, 64, 128))


def texts(context: Context, *quick: str) -> tuple[str, ...]:
    """The data: text, and Gaussian tokens in a full run; in a quick one those that are named."""
    return context.pick(("text", *quick), ("text", "gaussian:0", "gaussian:0.5"))


def widths(context: Context) -> tuple[int, ...]:
    """Widths measured."""
    return context.pick((16, 32, 64), (16, 32, 64, 128))


def deep(context: Context) -> tuple[int, ...]:
    """Deeper ones, for SGD's rule: its S·r² falls only as (2N)^(−1/2), and bends the line."""
    return context.pick((32, 96, 288), (32, 128, 512))


# ---- one backward pass ---------------------------------------------------------------------


def norms(x: Tensor) -> Tensor:
    """The Frobenius norm of each seed: (k, …) → (k,)."""
    found: Tensor = x.flatten(1).norm(dim=1)
    return found


def rms(sizes: Sequence[Tensor]) -> Tensor:
    """The root mean square of sizes (k,) each: (k,)."""
    return torch.stack(list(sizes)).double().square().mean(0).sqrt()


def per_token(change: Tensor) -> Tensor:
    """The mean over tokens of ‖Δx_p‖ of each seed: (k,)."""
    found: Tensor = change.norm(dim=-1).flatten(1).mean(1)
    return found


def loss_gradients(trial: Trial, parameters: Sequence[nn.Parameter]) -> dict[int, Tensor]:
    """∂L/∂θ of every one of ``parameters``, by its ``id``."""
    with numeric.only(trial.model, parameters):
        found = torch.autograd.grad(trial.loss(trial.output()).sum(), parameters)
    return {id(p): g for p, g in zip(parameters, found, strict=True)}


@dataclass(frozen=True)
class Gradient:
    """One parameter of all seeds with its gradient: (k, …) each."""

    description: Description
    theta: Tensor
    g: Tensor

    def norm(self) -> Tensor:
        """‖∂L/∂W‖ of every seed."""
        return norms(self.g)

    def absolute(self) -> Tensor:
        """‖∂L/∂W‖₁ of every seed."""
        return self.g.double().abs().flatten(1).sum(1)

    def update(self, expression: Expression, eta: float = 1.0) -> Tensor:
        """Δθ of every seed in a step."""
        return numeric.update(expression, eta, self.g, self.theta)

    def probe(self) -> Tensor:
        """⟨∂L/∂W, W⟩ of every seed: λ times the scalar probe."""
        return (self.g * self.theta).flatten(1).sum(1)


@dataclass(frozen=True)
class Pass:
    """A forward and a backward pass of all seeds of a trial."""

    trial: Trial
    gradients: tuple[Gradient, ...]
    loss: Tensor  # (k,)
    output: Tensor  # F, final norm included
    states: tuple[Tensor, ...]  # x_0 … x_S, (k, batch, tokens, d) each
    signals: tuple[Tensor, ...]  # ∂L/∂x_1 … ∂L/∂x_S
    branches: tuple[Tensor, ...]  # G(x) of every sublayer

    def of(self, *names: str) -> tuple[Gradient, ...]:
        """The gradients of the matrices called so, from the bottom up."""
        return tuple(g for g in self.gradients if g.description.name in names)

    def size(self, *names: str) -> Tensor:
        """The root mean square of ‖∂L/∂W‖ over these matrices, or those that λ scales."""
        return rms([g.norm() for g in self.of(*names or SCALED)])

    def weight(self) -> Tensor:
        """The root mean square of ‖W‖ over the matrices that λ scales."""
        return rms([norms(g.theta) for g in self.of(*SCALED)])

    def squared(self, *names: str) -> Tensor:
        """‖∇L‖² over the matrices called so, or all of them."""
        chosen = self.of(*names) if names else self.gradients
        return sum((g.norm().double() ** 2 for g in chosen), torch.zeros(len(self.loss)))

    def absolute(self, *names: str) -> Tensor:
        """‖∇L‖₁ over the matrices called so, or all of them."""
        chosen = self.of(*names) if names else self.gradients
        return sum((g.absolute() for g in chosen), torch.zeros(len(self.loss)))

    def normed(self) -> Tensor:
        """Σ‖θ‖‖g‖₁/√n over the matrices of n entries."""
        terms = (
            norms(g.theta).double() * g.absolute() / g.g[0].numel() ** 0.5 for g in self.gradients
        )
        return sum(terms, torch.zeros(len(self.loss)))


@contextmanager
def watched(trial: Trial) -> Iterator[list[tuple[Any, Tensor, Tensor, Tensor]]]:
    """Site, input x, branch G(x) and output of every residual sublayer that runs meanwhile."""
    found: list[tuple[Any, Tensor, Tensor, Tensor]] = []
    branches: list[Tensor] = []

    def see(residual: Any, given: tuple[Tensor, ...], output: Tensor) -> None:
        found.append((residual.site, given[0], branches.pop(), output))

    handles = []
    for residual in trial.model.residuals():
        handles.append(residual.branch.register_forward_hook(lambda m, a, o: branches.append(o)))
        handles.append(residual.register_forward_hook(see))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def backward(trial: Trial) -> Pass:
    """Loss, gradients of all that a step moves, hidden states and their signals."""
    chosen = trial.parameters()
    wanted = [p for p, _ in chosen]
    with watched(trial) as sublayers, numeric.only(trial.model, wanted):
        output = trial.output()
        losses = trial.loss(output)
        states = [state for *_, state in sublayers]
        found = torch.autograd.grad(losses.sum(), [*wanted, *states])
    return Pass(
        trial=trial,
        gradients=tuple(
            Gradient(d, p.detach(), g) for (p, d), g in zip(chosen, found, strict=False)
        ),
        loss=losses.detach(),
        output=output.detach(),
        states=(trial.inputs[-1], *(x.detach() for x in states)),
        signals=found[len(chosen) :],
        branches=tuple(branch.detach() for _, _, branch, _ in sublayers),
    )


def residual_sums(trial: Trial) -> list[tuple[Any, Tensor, Tensor]]:
    """The site, the input x and the branch's output G(x) of every residual sublayer."""
    with watched(trial) as sublayers:
        trial.output()
    return [(site, x, branch) for site, x, branch, _ in sublayers]


def sizes(states: Sequence[Tensor]) -> Tensor:
    """The rms of an entry of each of several states of the stream: (seeds, states)."""
    return torch.stack([x.double().square().mean((1, 2, 3)) for x in states], dim=1).sqrt()


def correlation(x: Tensor) -> Tensor:
    r"""The mean cosine between different tokens of a sequence: (k, batch, tokens, d) → (k,).

    With unit vectors u_t it is :math:`(\|\sum_t u_t\|^2 - n)/(n^2 - n)`.
    """
    unit = torch.nn.functional.normalize(x.double(), dim=-1)
    n = x.shape[-2]
    total = unit.sum(-2).square().sum(-1).mean(-1)
    return (total - n) / max(n * n - n, 1)


def cosines(states: Sequence[Tensor]) -> Array:
    """The mean cosine over tokens of every state with the first one, (states, seeds)."""
    first, similar = states[0].double(), torch.nn.functional.cosine_similarity
    return columns(similar(x.double(), first, dim=-1).flatten(1).mean(1) for x in states).T


Quantity: TypeAlias = "Callable[[Pass], Tensor]"
Quantities: TypeAlias = Mapping[str, Quantity]
Points: TypeAlias = "Iterable[tuple[Net, int, Settings]]"  # a network, its layers and its sizes


def at_points(points: Points, quantities: Quantities, scale: Scale | None = None) -> Arrays:
    """Quantities of the backward pass of every seed at each of several points: (seeds, points)."""
    found: dict[str, list[Tensor]] = {name: [] for name in quantities}
    for net, layers, s in points:
        p = backward(net.trial(layers, s, scale))
        for name, quantity in quantities.items():
            found[name].append(quantity(p))
        del p  # its memory is free for the next one
    return {name: columns(values) for name, values in found.items()}


def many_per_depth(
    net: Net,
    at: Sequence[int],
    s: Settings,
    quantities: Quantities,
    scale: Scale | None = None,
    at_once: int = 0,
) -> Arrays:
    """The same of one network at several depths, (seeds, depths) each.

    ``at_once`` seeds are measured together, in a part of the memory; all, unless it is given.
    """
    found = [
        at_points([(net, depth, lot) for depth in at], quantities, scale)
        for lot in lots(s, s.seeds // at_once if at_once else 1)
    ]
    return {name: np.concatenate([of_lot[name] for of_lot in found]) for name in quantities}


def per_depth(
    net: Net, at: Sequence[int], s: Settings, quantity: Quantity, at_once: int = 0
) -> Array:
    """One quantity of every seed and depth: (seeds, depths)."""
    return many_per_depth(net, at, s, {"": quantity}, at_once=at_once)[""]


def exponents(
    net: Net,
    at: Sequence[int],
    conditions: Mapping[str, Settings],
    quantities: Quantities,
    at_once: int = 0,
) -> dict[str, dict[str, Fit]]:
    """The exponents in depth of quantities of a backward pass: by quantity and condition."""
    found: dict[str, dict[str, Fit]] = {name: {} for name in quantities}
    for label, s in conditions.items():
        for name, values in many_per_depth(net, at, s, quantities, at_once=at_once).items():
            found[name][label] = settled(at, values)
    return found


# ---- one step ------------------------------------------------------------------------------


def updates_at(points: Points, chosen: Chosen | None = None) -> Array:
    """‖ΔF‖/η per token of every seed at each of several points: (seeds, points)."""
    cases = (numeric.Case(net.selection, net.rule, net.depth(n), s) for net, n, s in points)
    return columns([numeric.measure_model_update(case, chosen=chosen) for case in cases])


def model_updates(net: Net, at: Sequence[int], s: Settings, chosen: Chosen | None = None) -> Array:
    """The same of one network at several depths: (seeds, depths)."""
    return updates_at([(net, depth, s) for depth in at], chosen)


def update_exponents(
    net: Net,
    at: Sequence[int],
    conditions: Mapping[str, Settings],
    fit: Callable[[Sequence[int], Array], Any] = settled,
    chosen: Chosen | None = None,
) -> dict[str, Any]:
    """The exponents in depth of ‖ΔF‖/η of a step, by condition."""
    return {n: fit(at, model_updates(net, at, s, chosen)) for n, s in conditions.items()}


def own_updates(
    net: Net, at: Sequence[int], s: Settings, eta: float, step: Callable[[Gradient], None]
) -> Array:
    """‖ΔF‖/η per token after ``step`` moved every parameter in place: (seeds, depths)."""
    found = []
    for depth in at:
        trial = net.trial(depth, s)
        p = backward(trial)
        for g in p.gradients:
            step(g)  # θ is a view: the stack is stepped
        found.append(per_token(trial.output().double() - p.output.double()) / eta)
    return columns(found)


def torch_step(make: Callable[..., Any], theta: Tensor, g: Tensor, **chosen: Any) -> None:
    """A first step of an optimizer of torch's own moves θ in place."""
    view = torch.nn.Parameter(theta)
    view.grad = g
    make([view], **chosen).step()


def lamb(theta: Tensor, g: Tensor) -> Tensor:
    """The first step of the LAMB paper's algorithm 2, η = 1: moments, bias, trust ratio."""
    m, v = (1 - 0.9) * g, (1 - 0.999) * g**2
    r = (m / (1 - 0.9)) / ((v / (1 - 0.999)).sqrt() + 1e-12)
    return -(norms(theta) / norms(r)).view(-1, *[1] * (g.ndim - 1)) * r
