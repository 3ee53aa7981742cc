"""Parameter groups at the derived multipliers, for any torch optimizer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from deepnet_theory.definitions.constants import Budget, Constants
from deepnet_theory.definitions.optimizer import OPTIMIZERS, Optimizer
from deepnet_theory.definitions.outcome import InputError, Refusal, unknown
from deepnet_theory.definitions.selection import BaseLike
from deepnet_theory.definitions.sublayer import MATRICES
from deepnet_theory.models.applying import read_
from deepnet_theory.models.asked import TIED, role_of, slowest
from deepnet_theory.models.factory import require_module
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.linear import Blocks, Description, described_blocks, mark_of
from deepnet_theory.sizes.exported import in_budget, stepped_by, with_averages
from deepnet_theory.sizes.update import is_coupled

HIDDEN, OTHER = "hidden", "other"
KEPT = 1e-5  # of a ratio of rates, which a schedule rounds
ByOptimizer = float | Mapping[str, float]
Member = tuple[nn.Parameter, Blocks]
Betas = tuple[float, ...] | float  # a number is the momentum of an optimizer with one average
Multipliers = tuple[float, float, float]  # of learning rate, ε and weight decay


def parameter_groups(
    model: nn.Module,
    lr: ByOptimizer,
    *,
    eps: ByOptimizer | None = None,
    weight_decay: ByOptimizer = 0.0,
    constants: Constants | str | Path | None = None,
    base: BaseLike | None = None,
    optimizers: Mapping[str, str] | None = None,
    inputs: object = None,
    roles: Mapping[str, str] | None = None,
    batch: tuple[float, float] | None = None,
    horizon: tuple[float, float] | None = None,
    betas: Betas | Mapping[str, Betas] | None = None,
) -> list[dict[str, Any]]:
    r"""One group for all parameters of a part and role that step alike, for any torch optimizer.

    .. math:: \mathrm{lr}\cdot\eta\cdot\mathrm{rate}, \qquad
              \mathrm{eps}\cdot\mathrm{epsilon}, \qquad
              \mathrm{weight\_decay}\cdot\mathrm{weight\_decay}

    are its ``lr``, ``eps`` and ``weight_decay``, with η and the multipliers of ``constants``, or of
    those that the model was built from or took by :func:`apply_`; for any other model one forward
    pass on ``inputs`` shows what its parameters are (``roles`` as there). ``eps`` is by default
    that of the library's optimizer. Gains and biases do not decay.

    A group has a ``name``, a ``role``, its ``optimizer``, an ``lr_scale`` (its rate over the
    ``lr`` that was given; see :func:`guard`), and where it decays a ``decay``: ``decoupled``
    (lr·decay·θ is subtracted) or ``coupled`` (decay·θ is added to the gradient). Frozen parameters
    are left out; what no rule speaks of, such as LoRA's adapters, steps at ``lr`` as ``"other"``.

    ``base``, its width, (width, depth) or (width, depth, ``{"experts": 8}``) with other shapes,
    asks for groups relative to a base, a role each; ``lr``, ``eps`` and ``weight_decay`` are then
    the base's. ``optimizers`` says what steps which role, as ``{"hidden": "muon", "*": "adamw"}``:
    a role by its name, ``"hidden"`` for the matrices of the branches, ``"*"`` for the rest;
    ``lr``, ``eps``, ``weight_decay`` and ``betas`` may then be mappings by optimizer; an optimizer
    with one average takes a number there, its ``momentum``. The factor of the shape
    decides Muon's name: ``muon`` (torch's "original"), ``muon-moonlight`` ("match_rms_adamw"),
    ``muon-spectral`` (dion's default), ``muon-plain``.

    Warns where blocks packed into one parameter have several rates, or one polar factor. Raises
    :class:`InputError` where no constants are known, or a role has no optimizer or one that cannot
    step it; :class:`Refusal` where the constants do not fit the model, or an optimizer has no law.
    """
    built_with = constants_of(require_module(model))
    if built_with is None and constants is None:
        raise InputError(
            f"this {type(model).__name__} was not made by build; give its "
            "constants, or put them into it with apply_"
        )
    used = built_with if constants is None else checked(constants)
    assert used is not None
    stepped = _by_optimizer(used, base, optimizers)
    if batch is not None or horizon is not None:
        run = Budget(*_pair("batch", batch), *_pair("horizon", horizon))
        stepped = {name: in_budget(c, run, _mine(optimizers, name)) for name, c in stepped.items()}
    used = stepped.get(used.optimizer, next(iter(stepped.values())))
    if built_with is None:
        read_(model, used, inputs, roles)
    elif _layers(used) != _layers(built_with):
        raise InputError(
            f"the constants are for {_layers(used)} and the model was built with "
            f"{_layers(built_with)}"
        )
    packed = described_blocks(model)
    described = [d for blocks in packed.values() for d in blocks]
    if base is not None and built_with is not None and _starts(used) != _starts(built_with):
        warnings.warn(
            "the model's own constants have not this base: build the model of constants that are "
            "exported with it",
            stacklevel=2,
        )
    valid = dict.fromkeys(("*", HIDDEN, OTHER, *map(role_of, described)))
    for key in optimizers or ():
        if key not in valid:
            raise unknown("role", key, valid)
    members: dict[str, list[Member]] = {name: [] for name in stepped}
    for p in dict.fromkeys((*packed, *model.parameters())):
        if p.requires_grad:
            blocks = packed.get(p, ())
            name = used.optimizer if optimizers is None else _optimizer_of(p, blocks, optimizers)
            members[name].append((p, blocks))
    groups = []
    for name, c in stepped.items():
        rate, decay = _given("lr", lr, name), _given("weight_decay", weight_decay, name)
        epsilon = None if eps is None else _given("eps", eps, name)
        groups += _ruled([m for m in members[name] if m[1]], c, rate, epsilon, decay)
        for decays in (True, False):
            others = [p for p, bs in members[name] if not bs and (p.dim() > 1) is decays]
            if others:
                groups.append(
                    {"params": others, "lr": rate, "weight_decay": decay if decays else 0.0,
                     "name": OTHER, "role": OTHER, "optimizer": name, "lr_scale": 1.0}
                )  # fmt: skip
        own = betas.get(name) if isinstance(betas, Mapping) else betas
        if own is not None:
            averages, times = _averages(own, c, c.budget or Budget()), _with_averages(c)
            for g in (g for g in groups if g["optimizer"] == name):
                g |= averages
                if g["role"] != OTHER:
                    g |= {knob: g[knob] * by for knob, by in times.items()}
    return groups


def _with_averages(c: Constants) -> dict[str, float]:
    """What a rule's rates take where averages span as many samples; rate times decay stays."""
    if c.selected is None or c.budget is None or c.budget.times == 1:
        return {}
    # of what 1 - beta is multiplied by
    by = c.budget.steps ** -float(with_averages(c.selected).exponent("B"))
    # a decay inside the gradient is averaged as the gradient is
    decay = 1.0 if is_coupled(c.selected.the_optimizer) else 1 / by
    return {"lr": by, "lr_scale": by, "weight_decay": decay}


def _pair(what: str, given: object) -> tuple[float | None, float | None]:
    """A number of this run and of the tuned one."""
    match given:
        case None:
            return None, None
        case (float() | int() as here, float() | int() as tuned):
            return here, tuned
    raise InputError(f"{what} {given!r} is no pair: give this run's and the tuned run's, (64, 8)")


def _averages(own: Betas, c: Constants, run: Budget) -> dict[str, float | tuple[float, ...]]:
    """``betas`` or ``momentum`` of a budget; those that leave (0, 1) are 0, with a warning."""
    one = isinstance(own, (int, float))
    if c.selected is not None and one is not c.selected.the_optimizer.has_momentum:
        form = "a momentum, as in 0.95" if not one else "betas, as in (0.9, 0.95)"
        raise InputError(f"betas has {own!r} for {c.optimizer}, which has {form}")
    betas = own if isinstance(own, tuple) else (float(own),)
    for beta in betas:
        if (1 - beta) / run.steps > 1 - KEPT:
            end = f"{(run.base_horizon or 0) * (1 - beta):g} steps or fewer"
            if not run.horizon:
                end = f"a batch of {(run.base_batch or 1) / (1 - beta):g} or more"
            what = f"the beta {beta:g} leaves (0, 1) and is 0: its average has no memory at {end}"
            warnings.warn(what, stacklevel=3)
    kept = tuple(max(1 - (1 - beta) / run.steps, 0.0) for beta in betas)
    return {"momentum": kept[0]} if one else {"betas": kept}


def _given(what: str, value: ByOptimizer, optimizer: str) -> float:
    if not isinstance(value, Mapping):
        return value
    if optimizer not in value:
        raise InputError(f"{what} says nothing of {optimizer!r}; it has {', '.join(value)}")
    return value[optimizer]


# ------------------------------------------------------------------ which optimizer steps what


def _by_optimizer(
    c: Constants, base: BaseLike | None, by_role: Mapping[str, str] | None
) -> dict[str, Constants]:
    """The constants that each optimizer steps its roles with, relative to a base that is given."""
    if by_role is not None and not by_role:
        raise InputError('optimizers is empty: give {"hidden": "muon", "*": "adamw"}')
    names = dict.fromkeys([c.optimizer] if by_role is None else by_role.values())
    for name in names:
        if name not in (c.optimizer, *OPTIMIZERS):
            raise unknown("optimizer", name, OPTIMIZERS)
    return {name: stepped_by(c, name, base, _mine(by_role, name)) for name in names}


def _mine(by_role: Mapping[str, str] | None, name: str) -> Callable[[Any], bool]:
    """Whether an optimizer steps a place of the table."""

    def mine(place: Any) -> bool:
        hidden = place.is_matrix and bool(place.sublayer)
        return by_role is None or _named(by_role, place.role, hidden) == name

    return mine


def _named(by_role: Mapping[str, str], role: str, hidden: bool) -> str | None:
    """The optimizer of a role, None where nothing names the role."""
    return by_role.get(role) or (hidden and by_role.get(HIDDEN)) or by_role.get("*")


def _optimizer_of(p: nn.Parameter, blocks: Blocks, by_role: Mapping[str, str]) -> str:
    """The optimizer of a parameter; raises :class:`InputError` where it has none, or not one."""
    named = {
        role_of(d): _named(by_role, role_of(d), d.role in MATRICES and d.sublayer is not None)
        for d in blocks
    } or {OTHER: _named(by_role, OTHER, False)}
    first, *rest = dict.fromkeys(named.values())
    role = "+".join(named)
    if first is None or rest:
        what = "are one parameter of two optimizers" if rest else "has no optimizer; add '*'"
        raise InputError(f"optimizers: {role} {what}")
    known = OPTIMIZERS.get(first)
    if known and "polar(" in known.update and (p.dim() != 2 or "embedding" in role):
        raise InputError(
            f"optimizers: {first!r} steps a matrix by its polar factor, and {role} is "
            f"{'a table of vectors' if p.dim() == 2 else 'no matrix'}; give it another, such as "
            '{"hidden": "muon", "*": "adamw"}'
        )
    return first


def _starts(c: Constants) -> object:
    """What constants ask of the forward pass and of initial sizes."""
    head = c.outer["head"].gain if "head" in c.outer else 1.0
    sizes = [(s.alpha, s.beta, s.gains) for part in c.parts for s in part.sublayers]
    return c.head_multiplier, head, c.scores, sizes


def _layers(c: Constants) -> str:
    return " and ".join(f"{p.layers} {p.name} layers of {p.described()}" for p in c.parts)


def constants_of(model: nn.Module) -> Constants | None:
    for module in model.modules():
        constants = getattr(module, "constants", None)
        if isinstance(constants, Constants):
            return constants
    mark = mark_of(model)
    return mark and mark[0]


# ------------------------------------------------------------------ groups of one optimizer


def _ruled(
    members: Iterable[Member], c: Constants, lr: float, eps: float | None, weight_decay: float
) -> list[dict[str, Any]]:
    """The groups of described parameters: by part and role, and within these by multipliers."""
    optimizer, based = OPTIMIZERS.get(c.optimizer), c.base is not None
    eps = eps if eps is not None or optimizer is None else optimizer.epsilon
    alike: dict[tuple[str, str], dict[Multipliers, list[tuple[nn.Parameter, Description]]]] = {}
    packed: list[str] = []
    for parameter, blocks in members:
        row, d, one_rate = slowest(blocks, c)
        if not one_rate:
            packed.append(
                f"{'+'.join(d.name for d in blocks)} are packed into one parameter and would step "
                "at different rates: they step at the least of them"
            )
        if weight_decay and not row.weight_decay and based and d.role in MATRICES:
            raise Refusal(f"{role_of(d)}: {row.refused or 'no weight decay'}")
        if d.name == TIED and (head := c.outer.get("head", row)).rate != row.rate:
            raise Refusal(
                f"a tied head asks for two learning rates of one matrix: {row.rate:.4g} of the "
                f"base's as the embedding and {head.rate:.4g} as the head; give the head a matrix "
                "of its own"
            )
        role = role_of(d) if based else d.role.value
        multipliers = row.rate, row.epsilon, row.weight_decay
        by_multipliers = alike.setdefault((d.part or "", role), {})
        by_multipliers.setdefault(multipliers, []).append((parameter, d))
    together = (
        what for parameter, blocks in members if len(blocks) > 1 and parameter.dim() == 2
        for what in (_stepped_together(optimizer, blocks) if optimizer else ())
    )  # fmt: skip
    for what in (*packed[:1], *[next(together, "")]):
        if what:
            warnings.warn(what, stacklevel=3)
    convention = ""
    if weight_decay and optimizer:
        convention = "coupled" if is_coupled(optimizer) else "decoupled"
    groups = []
    for (part, role), of_role in alike.items():
        names = _names([[d for _, d in pairs] for pairs in of_role.values()])
        for ((rate, epsilon, decay), pairs), name in zip(of_role.items(), names, strict=True):
            group: dict[str, Any] = {
                "params": [parameter for parameter, _ in pairs],
                "lr": lr * c.eta * rate,
                "weight_decay": weight_decay * decay,
                "name": "/".join((part, role, *name)),
                "role": "+".join(dict.fromkeys(role_of(d) for _, d in pairs)),
                "optimizer": c.optimizer,
                "lr_scale": c.eta * rate,
            }
            if eps is not None:
                group["eps"] = eps * epsilon
            if group["weight_decay"] and convention:
                group["decay"] = convention
            groups.append(group)
    return groups


def _stepped_together(optimizer: Optimizer, blocks: Blocks) -> Iterator[str]:
    """The blocks of a packed matrix whose update takes it as a whole, as a polar factor does."""
    whole = {"polar", "norm", "rms"} & optimizer.expression.functions
    if whole and len({(d.part, d.sublayer) for d in blocks}) == 1:
        yield (
            f"{'+'.join(d.name for d in blocks)} are one matrix, and {optimizer.name} takes it as "
            "a whole, so that no block steps as it would by itself; split the matrix, or step it "
            "block by block"
        )


def _names(groups: list[list[Description]]) -> list[tuple[str, ...]]:
    """What tells the groups of one role apart: nothing, kinds of sublayers, or parameters too."""
    kinds = ["+".join(dict.fromkeys(d.kind or "final" for d in members)) for members in groups]
    if len(groups) == 1:
        return [()]
    if len(set(kinds)) == len(kinds):
        return [(kind,) for kind in kinds]
    called = ([d.name for d in ds] for ds in groups)
    return list(zip(kinds, ("+".join(dict.fromkeys(names)) for names in called), strict=True))


# ------------------------------------------------------------------ schedules


def guard(optimizer: torch.optim.Optimizer, *others: torch.optim.Optimizer) -> RemovableHandle:
    """Warn, once, before a step whose schedule has flattened the multipliers of the groups.

    Rates must stay as ``lr_scale`` to one another, those of the schedule's ``others`` too;
    ``g["lr"] = lr`` breaks it, and so does an ``eta_min`` in common. ``remove()`` of what is handed
    back ends it. Raises :class:`InputError` for an optimizer without :func:`parameter_groups`.
    """
    together, warned = (optimizer, *others), False
    if not all(map(_wanted, together)):
        raise InputError("no group has an lr_scale: make the groups with parameter_groups")

    def compare(*_: object) -> None:
        nonlocal warned
        wanted = [] if warned else [row for one in together for row in _wanted(one)]
        if not wanted:
            return
        plain, first = min(wanted, key=lambda row: abs(math.log(row[0]["lr_scale"])))
        for g, rate in wanted:
            kept = float(plain["lr"]) * rate / first if first else 0.0
            if not math.isclose(float(g["lr"]), kept, rel_tol=KEPT):
                warned = True
                warnings.warn(
                    f"the schedule has flattened the learning rates: {g['name']} steps at "
                    f"{float(g['lr']):.3g} and not at {kept:.3g}; write "
                    'g["lr"] = lr * g["lr_scale"]',
                    stacklevel=4,
                )
                return

    return optimizer.register_step_pre_hook(compare)


def _wanted(one: torch.optim.Optimizer) -> list[tuple[dict[str, Any], float]]:
    """The groups whose rate is a multiple, and the rates that they begin with."""
    scaled = [g for g in getattr(one, "param_groups", ()) if g.get("lr_scale")]
    # as torch's schedulers keep them
    first = [g.setdefault("initial_lr", g["lr"]) / g["lr_scale"] for g in scaled]
    return [(g, first[0] * g["lr_scale"]) for g in scaled]
