"""What the claims of the layer cake, the norm note and the paper measure in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.claim import Context
from deepnet_theory.spec.rule import Rule, own_rule
from deepnet_theory.spec.selection import Selection
from paper_checks.shared.changes import directions, moved, per_token, sublayer_norms
from paper_checks.shared.fitting import mean, power, rate
from paper_checks.shared.later import laboratory, no_grad, np, torch
from paper_checks.shared.stacks import loss_gradients, norms, residual_sums, small
from paper_checks.shared.sublayer import feed_forward, normalised

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from deepnet_theory.runtime import Description
    from paper_checks.shared.laboratory import Settings, Trace, Trial

__all__ = [  # what claims take from here, too
    "directions", "feed_forward", "mean", "moved", "normalised", "norms", "np", "per_token",
    "power", "rate", "residual_sums", "sublayer_norms", "torch",
]  # fmt: skip

ENCODER = ("encoder",)
PLAIN = own_rule(ENCODER, "1", "1")
DEEPNORM = own_rule(ENCODER, "(2*N)**(1/4)", "(8*N)**(-1/4)")  # as published


def settings(context: Context, **chosen: Any) -> Settings:
    """Small stacks on one thread, drawn from the context's seed."""
    return small(context, **chosen)


def updates(
    selection: Selection,
    rule: Rule,
    depths: Sequence[int],
    given: Settings,
    chosen: Callable[[Description], bool] | None = None,
) -> NDArray[Any]:
    """‖ΔF‖/η per token after one step, (seeds, depths)."""
    symbol = selection.the_stack.depths[0]
    found = [
        laboratory.measure_model_update(
            laboratory.Case(selection, rule, {symbol: n}, given), chosen=chosen
        ).values
        for n in depths
    ]
    return np.array(found).T


def trace(selection: Selection, rule: Rule, layers: int, given: Settings) -> Trace:
    """One recorded forward and backward pass of a stack of one part."""
    return laboratory.take_trace(
        laboratory.Trial(
            laboratory.Case(selection, rule, {selection.the_stack.depths[0]: layers}, given)
        )
    )


def generator(context: Context, purpose: int = 0) -> torch.Generator:
    """A generator of the context's seed, one for each purpose."""
    return torch.Generator().manual_seed(1000 * context.seed + purpose)


def bound_ratio(
    selection: Selection,
    rule: Rule,
    layers: int,
    given: Settings,
    kind: str,
    chosen: Callable[[Description], bool] = lambda d: d.role.value == "scaled",
    step: float = 1e-5,
) -> tuple[NDArray[Any], NDArray[Any]]:
    r"""The change of the output over Σ √(v²+w²)/α ‖Δθ_i‖: the mean token's, and the worst's.

    v = w = β of each sublayer; float64, so that a step of 10⁻⁵ is far from rounding.
    """
    symbol = selection.the_stack.depths[0]
    trial = laboratory.Trial(laboratory.Case(selection, rule, {symbol: layers}, given))
    changes, group = directions(trial, kind, step, chosen, given.seed)
    delta = moved(trial, changes, [p for p, _ in group])
    alpha, beta = rule.entry(selection.the_stack.parts[0].name, "*").at(**{symbol: layers})
    bound = math.sqrt(2) * beta / alpha * sublayer_norms(changes, group).sum(0)
    sizes = delta.norm(dim=-1).flatten(1)
    return (sizes.mean(1) / bound).numpy(), (sizes.amax(1) / bound).numpy()


# ---- through a stack, and inside it --------------------------------------------------------


@no_grad
def through_stack(
    selection: Selection, rule: Rule, depths: Sequence[int], given: Settings, common: bool = False
) -> NDArray[Any]:
    """‖ΔF‖/‖Δx‖ of a small random change of the input, (seeds, depths), in float64.

    ``common`` moves all tokens of a sequence the same way.
    """
    symbol = selection.the_stack.depths[0]
    columns = []
    for n in depths:
        trial = laboratory.Trial(laboratory.Case(selection, rule, {symbol: n}, given))
        x = trial.inputs[-1]
        g = torch.Generator().manual_seed(given.seed + 77)
        shape = (*x.shape[:-2], 1, x.shape[-1]) if common else x.shape
        v = torch.randn(shape, generator=g, dtype=x.dtype).expand(x.shape)
        v = v - v.mean(-1, keepdim=True)
        # a change along a normalised token leaves with the first norm: take the tangent part
        v = 1e-5 * (v - (v * x).sum(-1, keepdim=True) / (x * x).sum(-1, keepdim=True) * x)
        change = (trial.model.body(x + v) - trial.model.body(x - v)) / 2
        columns.append((norms(change) / norms(v)).numpy())
    return np.array(columns).T


def jacobian_norms(
    selection: Selection, rule: Rule, layers: int, given: Settings, probes: int = 4
) -> dict[str, NDArray[Any]]:
    r"""‖∂F/∂θ_i‖_F of each sublayer's scaled matrices by kind: (layers, seeds).

    With Gaussian u the squared norm of ∂⟨u, F⟩/∂θ has the squared Frobenius norm as its mean.
    """
    trial = laboratory.Trial(
        laboratory.Case(selection, rule, {selection.the_stack.depths[0]: layers}, given)
    )
    group = [(p, d) for p, d in trial.parameters() if d.role.value == "scaled"]
    parameters = [p for p, _ in group]
    source = torch.Generator().manual_seed(given.seed + 5)
    squares: dict[tuple[str, int], Tensor] = {}
    with laboratory.only(trial.model, parameters):
        output = trial.output()
        for _ in range(probes):
            u = torch.randn(output.shape, generator=source, dtype=output.dtype)
            found = torch.autograd.grad(output, parameters, u, retain_graph=True)
            for (_, d), g in zip(group, found, strict=True):
                key = (str(d.kind), int(d.layer or 0))
                squares[key] = squares.get(key, 0) + norms(g).double() ** 2 / probes  # type: ignore[operator]
    kinds = sorted({kind for kind, _ in squares})
    return {
        kind: torch.stack([squares[kind, n] for n in range(layers)]).sqrt().numpy()
        for kind in kinds
    }


def signals(
    selection: Selection, rule: Rule, layers: int, given: Settings
) -> tuple[NDArray[Any], NDArray[Any]]:
    """‖∂L/∂x_l‖ at every sublayer's output, and the part that differs between the tokens.

    Both (sublayers, seeds), bottom first.
    """
    trial = laboratory.Trial(
        laboratory.Case(selection, rule, {selection.the_stack.depths[0]: layers}, given)
    )
    found: list[Tensor] = []
    handles = []

    def keep(_: nn.Module, __: Any, output: Tensor) -> None:
        output.register_hook(lambda g: found.append(g.detach().double()))  # type: ignore[no-untyped-call]

    for residual in trial.model.residuals():
        handles.append(residual.register_forward_hook(keep))
    try:
        with laboratory.only(trial.model, [p for p, d in trial.parameters()]):
            trial.loss(trial.output()).sum().backward()  # type: ignore[no-untyped-call]
    finally:
        for handle in handles:
            handle.remove()
    found.reverse()
    whole = torch.stack([norms(g) for g in found])
    differing = torch.stack([norms(g - g.mean(-2, keepdim=True)) for g in found])
    return whole.numpy(), differing.numpy()


def token_changes(
    selection: Selection,
    rule: Rule,
    layers: int,
    given: Settings,
    chosen: Callable[[Description], bool] = lambda _: True,
) -> NDArray[Any]:
    """‖Δx_p‖/η of every token to first order of one SGD step, (seeds, batch·tokens)."""
    return trial_changes(
        laboratory.Trial(
            laboratory.Case(selection, rule, {selection.the_stack.depths[0]: layers}, given)
        ),
        chosen,
    )


def trial_changes(
    trial: Trial, chosen: Callable[[Description], bool] = lambda _: True
) -> NDArray[Any]:
    """The same of stacks that stand."""
    parameters = [p for p, d in trial.parameters() if chosen(d)]
    changes = {n: -1e-6 * g for n, g in loss_gradients(trial, parameters).items()}
    found: NDArray[Any] = moved(trial, changes, parameters).norm(dim=-1).flatten(1).numpy() / 1e-6
    return found


def output_gradient(
    selection: Selection, rule: Rule, layers: int, given: Settings, head: float = 1.0
) -> NDArray[Any]:
    """‖∂L_p/∂F_p‖, the root of its mean square over tokens, with the head scaled: (seeds,)."""
    trial = laboratory.Trial(
        laboratory.Case(selection, rule, {selection.the_stack.depths[0]: layers}, given)
    )
    with torch.no_grad():
        trial.model.head.weight.mul_(head)
        output = trial.output()
    output.requires_grad_()
    trial.loss(output).sum().backward()  # type: ignore[no-untyped-call]
    assert output.grad is not None
    tokens = output[0, ..., 0].numel()
    return (norms(output.grad).double() * math.sqrt(tokens)).numpy()


def matrix_updates(
    selection: Selection, rule: Rule, depths: Sequence[int], given: Settings
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Root mean squares over the scaled matrices of ‖g‖_F and ‖W‖_F, (seeds, depths)."""
    columns = []
    for n in depths:
        trial = laboratory.Trial(
            laboratory.Case(selection, rule, {selection.the_stack.depths[0]: n}, given)
        )
        group = [p for p, d in trial.parameters() if d.role.value == "scaled"]
        gradient = torch.stack([norms(g) for g in loss_gradients(trial, group).values()])
        weight = torch.stack([norms(p.detach()) for p in group])
        columns.append([x.square().mean(0).sqrt().double().numpy() for x in (gradient, weight)])
    both = np.array(columns)  # (depths, 2, seeds)
    return both[:, 0].T, both[:, 1].T


# ---- streams of Pre- and Post-Norm ---------------------------------------------------------


def cosines(states: Sequence[Tensor]) -> NDArray[Any]:
    """The mean cosine over tokens of every state with the first one, (states, seeds)."""
    first, similar = states[0].double(), torch.nn.functional.cosine_similarity
    found = [similar(x.double(), first, dim=-1).flatten(1).mean(1) for x in states]
    return torch.stack(found).numpy()
