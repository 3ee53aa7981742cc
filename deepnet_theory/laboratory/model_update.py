"""‖ΔF‖: how far one small step moves the output of a stack, and how far several steps do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.settings import Depth, depth_key
from deepnet_theory.laboratory.stepping import (
    Trajectory,
    backward,
    inner_product,
    only,
    stepping,
)
from deepnet_theory.laboratory.trial import Trial, draw_batch
from deepnet_theory.runtime import Description
from deepnet_theory.runtime.model import Residual

FIRST_ETA = 2.0**-10
RELATIVE_CHANGE = 1e-3  # ‖ΔF‖/‖F‖ aimed at: far above float32's rounding, far below curvature
LINEAR = 0.01  # the second-order part is kept under this
ROUNDING = 1.75  # ε·√layers/(‖ΔF‖/‖F‖) times so much of ΔF is rounding, as measured at 128 and 1000
WIDE = 30.0  # how many times more or less is accepted where the step is linear
ATTEMPTS = 6

Chosen = Callable[[Description], bool]


@dataclass(frozen=True)
class ModelUpdate:
    r"""One measured step at one depth; per-seed values as tuples.

    ``values`` are :math:`\|\Delta F\|/\eta` per token, averaged over tokens and a seed's draws;
    ``first_draw`` those of the first draw, whose losses these are. ``second_order`` is the part of
    ΔF that is not linear in η, ``relative_change`` ‖ΔF‖/‖F‖, ``finding`` where a value broke.
    """

    depth: Depth
    eta: float
    values: tuple[float, ...]
    second_order: float
    relative_change: float
    first_draw: tuple[float, ...]
    losses: tuple[float, ...]
    loss_changes: tuple[float, ...]
    first_order: tuple[float, ...]
    finding: str = ""

    def to_dict(self) -> dict[str, object]:
        return {k: v for k, v in asdict(self).items() if k not in ("values", "finding")}


def measure_model_update(
    case: Case, *, eta: float | None = None, draws: int = 1, chosen: Chosen | None = None
) -> ModelUpdate:
    r"""Measure ‖ΔF‖/η on the stacks of all seeds at one depth, the mean of ``draws``.

    η begins at ``eta``, or by the case alone, and is changed until the step is linear, as a twin of
    the first seed at half of it shows:

    .. math:: \Delta F(\eta) - 2\,\Delta F(\eta/2) = \tfrac12\eta^2 F'' + O(\eta^3)

    ``chosen`` restricts the step to some of the parameters: a share of ΔF.
    """

    begin = _eta_to_begin_with(case) if eta is None else eta
    first = find_linear_step(lambda eta: measure_draw(case, eta, 0, chosen), begin)
    others = (measure_draw(case, first.eta, n, chosen) for n in further_draws(first, draws))
    return average_draws([first, *others])


def measure_draw(case: Case, eta: float, draw: int, chosen: Chosen | None = None) -> ModelUpdate:
    """One draw of data and weights stepped with ``eta``; the first draw has the twin."""
    return _step(Trial(case, draw=draw, twin=draw == 0), eta, chosen)


def further_draws(first: ModelUpdate, draws: int) -> range:
    return range(1, 1 if first.finding or not first.relative_change else draws)


def average_draws(drawn: Sequence[ModelUpdate]) -> ModelUpdate:
    """One model update of several draws: the mean of values; the first draw had the twin."""
    if len(drawn) == 1:
        return drawn[0]
    return replace(
        drawn[0],
        values=tuple(fmean(one) for one in zip(*(u.values for u in drawn), strict=True)),
        finding=next((u.finding for u in drawn if u.finding), ""),
    )


def find_linear_step(step: Callable[[float], ModelUpdate], eta: float) -> ModelUpdate:
    """A step small enough for the output to change linearly, beginning at ``eta``.

    η is a power of two, which a gain of 1 or a weight takes without rounding.
    """
    # A power of two costs no rounding, so that ΔF(η) − 2 ΔF(η/2) shows the curvature alone.
    update = step(_power_of_two(eta))
    for _ in range(ATTEMPTS):
        change = update.relative_change / RELATIVE_CHANGE
        if 1 / WIDE < change < WIDE or math.isnan(change):
            break  # NaN: the stack itself is not finite, and no step is small enough
        factor = 1e-3 if math.isinf(change) else 1e3 if change == 0 else 1 / change
        if not 1e-30 < update.eta * factor < 1e15:
            break  # the step moves nothing, or breaks everything, whatever its size
        update = step(_power_of_two(update.eta * factor))
    if update.second_order < LINEAR or not 0 < update.relative_change < math.inf:
        return update
    aimed = update.eta * RELATIVE_CHANGE / update.relative_change
    for factor in (1, 4, 1 / 4):  # a larger step drowns rounding, a smaller one curvature
        eta = _power_of_two(factor * aimed)
        if eta == update.eta:
            continue  # it is the one that was tried
        other = step(eta)
        if not update.second_order <= other.second_order:
            update = other
        if update.second_order < LINEAR:
            break
    return update


def _eta_to_begin_with(case: Case) -> float:
    r"""The η of one layer, larger where rounding would be more than half of what is allowed.

    Each layer rounds by itself: :math:`\sqrt L\,\epsilon\,\|F\|` adds up beside ΔF.
    """
    precision = torch.finfo(case.settings.torch_dtype).eps
    layers = sum(case.depth.values())
    rounding = ROUNDING * precision * math.sqrt(layers) / RELATIVE_CHANGE
    return _eta_of_one_layer(case) * max(1.0, rounding / (LINEAR / 2))


def _eta_of_one_layer(case: Case) -> float:
    """The η that changes the output of one layer a part by the part aimed at."""
    shallow = replace(case, depth=dict.fromkeys(case.depth, 1))
    try:
        update = measure_draw(shallow, FIRST_ETA, 0)
    except InputError:  # the rule has no value there
        return FIRST_ETA
    change = update.relative_change / RELATIVE_CHANGE
    return FIRST_ETA / change if 0 < change < math.inf else FIRST_ETA


def _power_of_two(eta: float) -> float:
    return float(2.0 ** round(math.log2(eta)))


def _step(trial: Trial, eta: float, chosen: Chosen | None) -> ModelUpdate:
    rates = torch.full((trial.seeds,), eta, dtype=trial.settings.torch_dtype)
    rates[trial.drawn :] /= 2  # the twin
    rates = rates.to(trial.settings.torch_device)
    first_order = torch.zeros_like(rates)

    def observe(_: nn.Parameter, gradient: Tensor, change: Tensor) -> None:
        first_order.add_(inner_product(gradient, change))

    parameters = [p for p, d in trial.parameters() if chosen is None or chosen(d)]
    if not parameters:
        zeros = (0.0,) * trial.drawn
        return ModelUpdate(trial.depth, eta, zeros, 0.0, 0.0, zeros, zeros, zeros, zeros)
    expression = trial.selection.the_optimizer.expression
    # one sequence a seed has no batch dimension, which every product would fold and unfold
    trial.inputs = [x.squeeze(1) for x in trial.inputs]
    steps = stepping(parameters, expression, rates, observe, trial.rate)
    with only(trial.model, parameters), steps:
        before = trial.output()
        losses = trial.loss(before)
        backward(losses)
    before, losses = before.detach(), losses.detach()
    with torch.inference_mode():
        after = trial.output()
        changes = trial.loss(after) - losses
        change = (after - before).double()
        sizes = change.norm(dim=-1).flatten(1).mean(1)  # (k,), the mean over tokens of ‖ΔF‖
        bend = change.new_zeros(())
        if trial.seeds > trial.drawn:
            bend = 2 * (change[0] - 2 * change[-1]).norm() / change[0].norm()
        whole = before.flatten(1).isfinite().all(1)
        relative = change[whole].norm() / before[whole].double().norm()
        if whole.any() and not relative.isfinite():
            relative.fill_(math.inf)
    values, begun, changed, slopes = (
        tuple(x[: trial.drawn].tolist()) for x in (sizes / eta, losses, changes, first_order)
    )
    sound = all(map(math.isfinite, values))
    finding = "" if sound else find_non_finite(trial, before, eta)
    second_order = float(bend) if change.any() else 0.0
    return ModelUpdate(
        trial.depth, eta, values, second_order, float(relative),
        values, begun, changed, slopes, finding,
    )  # fmt: skip


@torch.no_grad()
def find_non_finite(trial: Trial, before: Tensor, eta: float) -> str:
    """Where infinity or NaN first appears: before the step or after it, and the sublayer."""
    hurt = int((~before.flatten(1).isfinite().all(1)).sum())
    when = "before the step" if hurt else f"after a step of eta = {eta:g}"
    seen: list[str] = []

    def watch(module: nn.Module, _: object, output: Tensor) -> None:
        if not seen and not output.isfinite().all():
            assert isinstance(module, Residual)
            site = module.site
            assert site.layer is not None
            seen.append(f"layer {site.layer + 1} of the {site.part} ({site.kind})")

    model = trial.model
    if hurt:  # the step has already spoiled the weights: look at the stack as it was drawn
        model = trial.again().model
    handles = [residual.register_forward_hook(watch) for residual in model.residuals()]
    try:
        *memory, x = trial.inputs
        after = model.body(x, *memory)
    finally:
        for handle in handles:
            handle.remove()
    count = int((~after[: trial.drawn].flatten(1).isfinite().all(1)).sum())
    where = seen[0] if seen else "the gradient, not the forward pass"
    return (
        f"{when}, at depth {depth_key(trial.depth)}: not finite in {count} of "
        f"{trial.drawn} seeds, first in {where}"
    )


# ---- many updates ----

FRESH = 2**20  # draws of data from here on are those of later updates


def counts(updates: int) -> Iterator[int]:
    """The output is looked at after these numbers of updates: 2, 4, 8, … and the last."""
    count = 2
    while count < updates:
        yield count
        count *= 2
    if updates > 1:
        yield updates


def measure_updates(case: Case) -> dict[int, list[float]]:
    r"""Each seed's :math:`\|F_T - F_0\|` per token after T updates of the settings' ``eta``.

    On fresh data at every update; F on the first batch. NaN where it is not finite any more.
    """
    settings, selection = case.settings, case.selection
    trial = Trial(case)
    rates = [(p, settings.eta * trial.rate(p)) for p, _ in trial.parameters()]
    trajectory = Trajectory(selection.the_optimizer, rates)
    first, parts = trial.batch, len(selection.the_stack.parts)
    with torch.no_grad():
        start = trial.output().double()
    sizes: dict[int, list[float]] = {}
    with trajectory.stepping(trial.model):
        for count in range(1, settings.updates + 1):
            trajectory.step(trial.loss(trial.output()))
            if count in counts(settings.updates):
                trial.see(first)
                with torch.no_grad():
                    change = trial.output().double() - start
                sizes[count] = change.norm(dim=-1).flatten(1).mean(1).tolist()
            trial.see(draw_batch(settings, trial.drawn, parts, FRESH + count))
    return sizes
