"""An explicit network of the three kinds of maps in width, and what a step does through each.

Embedding, two hidden maps, head: logits = c_H H tanh(c₂ W₂ tanh(c₁ W₁ E[t])). Nothing of what the
package derives in width is used: matrices, autograd, and the derivative along a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from paper_checks.shared.fitting import columns, power
from paper_checks.shared.later import Array, torch

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from paper_checks.shared.bench import Lab
    from paper_checks.shared.numeric import Interval

Step: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"  # Δθ per learning rate, of θ and g

SYMBOLS, TOKENS = 16, 4
EMBEDDING, HIDDEN, HEAD, ALL = "embedding", "hidden", "head", "all"
ROLES = (EMBEDDING, HIDDEN, HEAD)
ROLE_OF = {"E": EMBEDDING, "W1": HIDDEN, "W2": HIDDEN, "H": HEAD}
# what is stepped, and the output that it makes; of the hidden maps the upper one
STEPPED = {
    EMBEDDING: (("E",), "x"),
    HIDDEN: (("W2",), "y"),
    HEAD: (("H",), "logits"),
    ALL: (("E", "W1", "W2", "H"), "logits"),
}


@dataclass(frozen=True)
class Powers:
    """The exponents of the width by role: initial size, forward multiplier, learning rate."""

    init: Mapping[str, float]
    multiplier: Mapping[str, float] = field(default_factory=dict)
    rate: Mapping[str, float] = field(default_factory=dict)

    def rates(self, **by_role: float) -> Powers:
        """The same network at other learning rates."""
        return replace(self, rate=by_role)


STANDARD = Powers({HIDDEN: -0.5, HEAD: -0.5})
MUP = Powers({HIDDEN: -0.5}, {HEAD: -1.0})  # as in Table 8: 1/n behind the head, which starts at 1
MUP_WEIGHTS = Powers({HIDDEN: -0.5, HEAD: -1.0})  # as in Table 3: 1/n in the head's initial size


def widths(lab: Lab) -> tuple[int, ...]:
    """Widths measured."""
    return lab.pick((128, 256, 512, 1024), (128, 256, 512, 1024, 2048))


def size(x: Tensor) -> Tensor:
    """The root mean square of the entries of every seed: (k,)."""
    return x.square().flatten(1).mean(1).sqrt()


def length(x: Tensor) -> Tensor:
    """‖x‖_F of every seed, to multiply matrices with: (k, 1, 1)."""
    found: Tensor = torch.linalg.matrix_norm(x, keepdim=True)
    return found


def spectral(x: Tensor) -> Tensor:
    """‖x‖₂ of every seed where x is of rank one: (k,)."""
    v = torch.randn(x.shape[-1], 1, generator=torch.Generator().manual_seed(0))
    v = x.mT @ (x @ v)
    return length(x @ v).flatten() / length(v).flatten()


# ---- first steps, per unit of learning rate ----


def sgd(theta: Tensor, g: Tensor) -> Tensor:
    return -g


def adam(theta: Tensor, g: Tensor) -> Tensor:
    """Adam's first step at ε = 0, and Lion's: the sign."""
    return -g.sign()


def lamb(theta: Tensor, g: Tensor) -> Tensor:
    """LAMB's: Adam's, at the length of the parameter."""
    return -length(theta) * g.sign() / length(g.sign())


def lars(theta: Tensor, g: Tensor) -> Tensor:
    """LARS's: the gradient, at the length of the parameter."""
    return -length(theta) * g / length(g)


def polar(g: Tensor, rank: int = SYMBOLS) -> Tensor:
    """U Vᵀ of the singular value decomposition of a gradient of at most that rank."""
    source = torch.Generator().manual_seed(0)
    probes = torch.randn(g.shape[-1], min(rank, *g.shape[-2:]), generator=source)
    basis, _ = torch.linalg.qr(g @ probes)  # spans all of g's range
    u, s, v = torch.linalg.svd(basis.mT @ g, full_matrices=False)
    found: Tensor = basis @ (u * (s > 1e-4 * s[:, :1])[:, None]) @ v
    return found


# ---- the network ----


class Network:
    """The networks of all seeds at one width, and their symbols, each with the one to follow."""

    def __init__(
        self, powers: Powers, width: int, seeds: int, source: Generator, tokens: int = TOKENS
    ) -> None:
        n, v = width, SYMBOLS
        shapes = {"E": (v, n), "W1": (n, n), "W2": (n, n), "H": (v, n)}
        self.powers, self.width, self.source = powers, width, source
        self.parameters = {
            name: torch.randn(seeds, *shape, generator=source)
            .mul_(self.of(powers.init, name))
            .requires_grad_()
            for name, shape in shapes.items()
        }
        self.symbols = self.draw(seeds, tokens)

    def of(self, exponents: Mapping[str, float], name: str) -> float:
        """The width to the power that the role of a parameter has."""
        return float(self.width ** exponents.get(ROLE_OF[name], 0.0))

    def draw(self, seeds: int, tokens: int) -> Tensor:
        """One-hot symbols, all different in a seed, and what follows them: (k, T, 2, V)."""
        order = torch.rand(seeds, 2, SYMBOLS, generator=self.source).argsort(-1)[..., :tokens]
        found: Tensor = torch.nn.functional.one_hot(order, SYMBOLS).float().transpose(1, 2)
        return found

    def forward(self, p: Mapping[str, Tensor], symbols: Tensor | None = None) -> dict[str, Tensor]:
        """What the maps make: x, first and y of the hidden ones, logits."""
        c = {name: self.of(self.powers.multiplier, name) for name in ROLE_OF}
        x = c["E"] * (self.symbols if symbols is None else symbols)[:, :, 0] @ p["E"]
        first = c["W1"] * x @ p["W1"].mT
        y = c["W2"] * first.tanh() @ p["W2"].mT
        return {"x": x, "first": first, "y": y, "logits": c["H"] * y.tanh() @ p["H"].mT}

    def loss(self, symbols: Tensor | None = None) -> Tensor:
        """The mean cross-entropy of every seed: (k,)."""
        of = self.symbols if symbols is None else symbols
        logits = self.forward(self.parameters, of)["logits"]
        return -(logits.log_softmax(-1) * of[:, :, 1]).sum(-1).mean(1)

    def gradients(self) -> dict[str, Tensor]:
        """∂L/∂θ of every parameter."""
        found = torch.autograd.grad(self.loss().sum(), list(self.parameters.values()))
        return dict(zip(self.parameters, found, strict=True))

    def steps(self, step: Step) -> dict[str, Tensor]:
        """Δθ of every parameter at the learning rates of the powers."""
        return {
            name: self.of(self.powers.rate, name) * step(self.parameters[name].detach(), g)
            for name, g in self.gradients().items()
        }

    def moved(self, steps: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The derivative of what every map makes along a step, its size: (k,) each.

        By hand, tanh′ = 1 − tanh²; maps that the step does not move are left out.
        """
        with torch.no_grad():
            made = self.forward(self.parameters)
            inputs = {"E": self.symbols[:, :, 0], "W1": made["x"]}
            inputs |= {"W2": made["first"].tanh(), "H": made["y"].tanh()}
            found: dict[str, Tensor] = {}
            along = torch.zeros(())  # of the output before; a scalar where nothing has moved
            for (name, of), output in zip(inputs.items(), made, strict=True):
                matrix = self.parameters[name] if name == "E" else self.parameters[name].mT
                c, change = self.of(self.powers.multiplier, name), torch.zeros(())
                if along.ndim:
                    change = c * (along if name == "W1" else (1 - of**2) * along) @ matrix
                if name in steps:
                    change = change + c * of @ (steps[name] if name == "E" else steps[name].mT)
                found[output] = along = change
            return {name: size(change) for name, change in found.items() if change.ndim}

    def optimizer(self, eta: float) -> torch.optim.Optimizer:
        """torch's Adam at η times the learning rates of the powers."""
        groups = [
            {"params": [theta], "lr": eta * self.of(self.powers.rate, name)}
            for name, theta in self.parameters.items()
        ]
        return torch.optim.Adam(groups, eps=1e-20)  # symbols that were not seen have no gradient

    def train(self, optimizer: torch.optim.Optimizer) -> None:
        """One step of all parameters."""
        for name, g in self.gradients().items():
            self.parameters[name].grad = g
        optimizer.step()


def moves(
    lab: Lab, powers: Powers, step: Step, roles: Sequence[str] = tuple(STEPPED)
) -> dict[str, Array]:
    """What a step of one role moves, of its own output; "all": what all move, of the logits.

    Per unit of learning rate, (seeds, widths) each.
    """
    found: dict[str, list[Tensor]] = {role: [] for role in roles}
    for width in widths(lab):
        net = Network(powers, width, 16, lab.generator(width))
        steps = net.steps(step)
        for role in roles:
            names, output = STEPPED[role]
            found[role].append(net.moved({n: steps[n] for n in names})[output])
    return {role: columns(values) for role, values in found.items()}


def exponents(
    lab: Lab, powers: Powers, step: Step, roles: Sequence[str] = tuple(STEPPED)
) -> dict[str, Interval]:
    """The exponents in the width of :func:`moves`."""
    return {role: power(widths(lab), v) for role, v in moves(lab, powers, step, roles).items()}


def trained(
    lab: Lab, powers: Powers, eta: float, steps: int, seeds: int = 16
) -> dict[str, dict[str, Interval]]:
    """The exponents of what the maps make "before" and "after" steps of Adam, and its "change".

    By output, on the symbols that are trained on.
    """
    found: dict[str, dict[str, list[Tensor]]] = {"before": {}, "after": {}, "change": {}}
    for width in widths(lab):
        net = Network(powers, width, seeds, lab.generator(width))
        optimizer = net.optimizer(eta)
        with torch.no_grad():
            before = net.forward(net.parameters)
        for _ in range(steps):
            net.train(optimizer)
        with torch.no_grad():
            after = net.forward(net.parameters)
        for name, old in before.items():
            of = {"before": old, "after": after[name], "change": after[name] - old}
            for when, value in of.items():
                found[when].setdefault(name, []).append(size(value))
    return {
        when: {name: power(widths(lab), columns(values)) for name, values in of.items()}
        for when, of in found.items()
    }
