r"""α and β put into a model that somebody already has, its embedding and head drawn to fit.

The rules take a stream to start at rms 1: a token's row has it, a position's
:math:`1/\sqrt2` of that. Logits of variance v raise the loss by v/2 above ln V: a head is drawn
by Xavier's law, or smaller where v/2 is more than a share of ln V.

A tied matrix E, entries σ, serves both: the stream is multiplied in the forward pass, and the
logits by :math:`1/(d\sigma)`, since a token's own is :math:`E_t \cdot x/\sigma \approx d\sigma`:
condition (H) of the width, a move of the features by 1 moves the logits by 1.
"""

from __future__ import annotations

import math
import re
import warnings
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import DeepNetTheoryError, Refusal
from deepnet_theory.definitions.reading import FoundSublayer, Logits, Reading, residual_equation
from deepnet_theory.definitions.subject import (
    Difference,
    Wanted,
    WantedSublayer,
    as_asked,
    differences,
    without_law,
)
from deepnet_theory.definitions.sublayer import Role, sublayer
from deepnet_theory.models.asked import EXACT, asked, blocks, describe, fit, where
from deepnet_theory.models.factory import Made, made
from deepnet_theory.models.places import Places, own_module, restored_on_error
from deepnet_theory.models.reading import read
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.linear import NORM_EPS, describe_, mark_of

# draws views of a parameter, which is named, at a standard deviation
Draw = Callable[[str, Iterable[Tensor], float], None]
# standard deviation and the entries: an axis, the first along it, the end (None: all)
Runs = tuple[tuple[float, int, int, int | None], ...]
CHANCE = 1e-6  # of refusing a model whose matrices were drawn as they should
EDGE = 1.1  # times the largest singular value that independent entries have
KEPT = "nothing was changed"


@dataclass(frozen=True)
class Change:
    """What happened to one matrix, vector or residual sum."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class Applied:
    """What was done: ``changes`` has everything in order, ``summary`` a line of each kind.

    ``changes`` is empty where the model already had these constants. ``lines`` are the lines of
    code that the rule needs in the model's forward pass, or beside it, and that are not there.
    """

    changes: tuple[Change, ...]
    summary: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.changes:
            return "nothing changed: the model already has these constants"
        return "\n".join(self.summary)


@torch.no_grad()
def apply_(
    model: nn.Module,
    constants: Constants | str | Path,
    *,
    inputs: object = None,
    roles: Mapping[str, str] | None = None,
    initialise: bool | None = None,
    outer: bool = True,
    generator: torch.Generator | None = None,
) -> Applied:
    """Put the constants into a model that :func:`build` did not make, in place.

    One forward pass on ``inputs`` (without them token ids or vectors are tried) shows what every
    parameter is; ``roles`` say what it does not, as ``{"value": "*.v_proj.weight"}``. Every
    branch matrix is drawn by Xavier's law at its gain, packed ones block by block, each with its
    own fans, experts divided by what their gates add up to; biases become 0; of a norm, an ε is set
    where the rule asks for a smaller one, which no ``state_dict`` holds.
    Tables are drawn so that the stream starts at rms 1, a head so that the loss starts at ln V
    (``outer=False``: not); pretrained and tied ones stay, and what they need in the forward pass
    is in :attr:`Applied.lines`, as code.

    α is put into the forward pass where the code has a place for it: in layers of ``torch.nn``,
    and in modules that are called with (h, x) and compute norm(G(h) + x), as BERT's are. It is
    saved in the ``state_dict``; loading without it fails. Hugging Face's ``from_pretrained`` does
    not load it: make the model from its configuration, apply with ``initialise=False``, and load
    the weights with ``load_state_dict``.

    The first step of an optimizer without the groups of
    :func:`~deepnet_theory.models.groups.parameter_groups` warns, where the constants ask for
    several learning rates.

    ``initialise=False`` sets α alone; weights that look trained are redrawn with
    ``initialise=True`` only; a model that has these constants is left as it is. The forward pass
    is then read once more. Raises :class:`Refusal` where that does not show the constants, for a
    model that was not understood or does not fit, and for parameters spread over processes; any
    error, an interrupt too, leaves the model as it was.
    """
    constants = checked(constants)
    constants.warn()
    module = own_module(model)
    with restored_on_error(module) as keep:

        def draw(name: str, views: Iterable[Tensor], std: float) -> None:
            keep(module.get_parameter(name))
            for view in views:
                if std:  # anew, as a view need not be dense
                    view.copy_(torch.empty_like(view).normal_(0.0, std, generator=generator))
                else:
                    view.zero_()

        return _applied(module, constants, inputs, roles, initialise, outer, draw)


def _applied(
    model: nn.Module, constants: Constants, inputs: object, roles: Mapping[str, str] | None,
    initialise: bool | None, outer: bool, draw: Draw,
) -> Applied:  # fmt: skip
    whole, reading, rule = _read(model, constants, inputs, roles)
    marks = ((constants, True), *([] if initialise else [(constants, False)]))
    if mark_of(model) in marks and not _alphas(reading, rule):
        return Applied(())
    drawn = initialise is not False
    if initialise is None and (why := _not_fresh(model, reading)):
        raise Refusal(
            f"{why}; say initialise=True to draw them anew, or initialise=False to set alpha alone"
        )
    if drawn and (why := without_law(reading.in_gains)):  # of gains that no rule asks for
        raise Refusal(f"{why}; {KEPT}")
    changes = _set_alpha(model, reading, rule)
    large: dict[str, float] = {}
    if drawn:
        if outer:  # first, so that one generator gives the same at every depth
            changes += _draw_outer(model, reading, constants, initialise, draw)
        changes += _draw(model, reading, rule, draw)
        changes += _set_epsilons(model, reading, rule, large)
        if any(sublayer(s.kind).experts > 1 for s in reading.sublayers):
            # what their gates add up to is known once the router is drawn
            changes += _draw_behind_gates(model, *_read(whole, constants, None, roles)[1:], draw)
    try:
        _, again, wanted = _read(whole, constants, None, roles)
        left = _alphas(again, wanted)
    except DeepNetTheoryError:  # of what was put in, for it was read before
        if not (left := _alphas(reading, rule)):
            raise
    if left:
        raise Refusal(f"{_no_place(reading, left[0])}; {KEPT}")
    for d in differences(again, rule, EXACT, CHANCE) if drawn else ():
        assert d.matrix is not None
        size, aim = (gain * d.matrix.xavier for gain in (d.found, d.wanted))
        raise Refusal(
            f"{d.matrix.where} enters the forward pass with entries of rms {size:.4g} after it was "
            f"drawn with {aim:.4g}; {KEPT}"
        )
    if drawn and outer:
        _require_outer(again, constants, {change.name for change in changes})
    describe_(model, describe(reading, rule), constants, drawn=drawn)
    if len(_rates(reading, rule, constants)) > 1:
        _watch_rates(model)
    lines = tuple(lines_of_code(again, constants)) if drawn else ()
    summary = _summary(again, rule, constants, changes, lines, large)
    return Applied(tuple(changes), tuple(summary), lines)


@torch.no_grad()
def start_(
    model: nn.Module, c: Constants, *, inputs: object = None, roles: Mapping[str, str] | None = None
) -> tuple[dict[str, Runs], list[str]]:
    """Draw a model anew as :func:`apply_` does: how each parameter starts, and lines of code.

    The lines are what its forward pass lacks, α among them. The model keeps what its parameters are
    to the constants, as ``parameter_groups`` asks. Raises :class:`Refusal` as :func:`apply_` does.
    """
    model, large = own_module(model), dict[str, float]()
    starts: dict[str, dict[tuple[int, int, int | None], float]] = {}

    def draw(name: str, views: Iterable[Tensor], std: float) -> None:
        parameter = model.get_parameter(name)
        for view in views:
            view.normal_(0.0, std)
            run: tuple[int, int, int | None] = (0, 0, None)
            if view.numel() < parameter.numel():
                view = view[(None,) * (parameter.dim() - view.dim())]
                axis = next(i for i, n in enumerate(view.shape) if n < parameter.shape[i])
                first = (view.storage_offset() - parameter.storage_offset()) // view.stride(axis)
                run = axis, first, first + view.shape[axis]
            starts.setdefault(name, {})[run] = std

    whole, reading, rule = _read(model, c, inputs, roles)
    list(_draw_outer(model, reading, c, True, draw))
    list(_draw(model, reading, rule, draw))
    smaller = list(_set_epsilons(model, reading, rule, large))
    _, again, rule = _read(whole, c, None, roles)
    list(_draw_behind_gates(model, again, rule, draw))
    describe_(model, describe(again, rule), c, drawn=False)
    lines = dict[str, None]()
    for d in _alphas(again, rule):
        s, alpha = again.sublayers[d.index], f"{rule.sublayers[d.index].alpha:.6g}"
        lines[f"x = {residual_equation(s.around, alpha)}  # {s.kind} of the {s.stack}"] = None
    for change in smaller:
        lines[f"{re.sub('[0-9]+', '#', change.name)}: {change.what}"] = None
    lines |= dict.fromkeys(f"norms on the {where}: epsilon {e:.3g}" for where, e in large.items())
    runs = {name: tuple((std, *run) for run, std in own.items()) for name, own in starts.items()}
    return runs, [*lines, *lines_of_code(again, c)]


def _rates(reading: Reading, rule: Wanted, c: Constants) -> list[float]:
    """The learning rates that the parameters of the layers ask for, as multiples."""
    members = (d for packed in describe(reading, rule).values() for d in packed)
    return sorted({asked(d, c).rate for d in members if d.sublayer is not None})


_watched = weakref.WeakSet[nn.Module]()  # models whose optimizer has not made a step yet


def _watch_rates(model: nn.Module) -> None:
    """Warn at the model's first step if its optimizer has not the groups of parameter_groups."""
    _watched.add(model)
    _watch_optimizers()


@cache
def _watch_optimizers() -> None:
    """Have every optimizer compared with the watched models.

    Torch iterates over these hooks while it calls them: one that removed itself would end the step.
    """
    register_optimizer_step_pre_hook(_compare)


def _compare(optimizer: torch.optim.Optimizer, *_: object) -> None:
    if not _watched:
        return
    stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
    first = [m for m in _watched if not stepped.isdisjoint(map(id, m.parameters()))]
    for model in first:
        _watched.discard(model)
    if first and not any("lr_scale" in group for group in optimizer.param_groups):
        warnings.warn(
            f"{type(optimizer).__name__} steps all parameters at one learning rate, and the "
            "constants that apply_ put into the model ask for several: give it "
            "parameter_groups(model, lr); a Trainer takes it as optimizers=(optimizer, None)",
            stacklevel=3,
        )


def _alphas(reading: Reading, rule: Wanted) -> list[Difference]:
    """The sublayers whose α, where it is in the code, is another one."""
    return [d for d in differences(reading, rule, EXACT) if d.item == "alpha"]


def read_(
    model: nn.Module, constants: Constants, inputs: object, roles: Mapping[str, str] | None
) -> None:
    """Keep in a model what its parameters are to the constants, which it must already have.

    Raises :class:`Refusal` where it has another α.
    """
    model = own_module(model)
    with restored_on_error(model):
        _, reading, rule = _read(model, constants, inputs, roles)
        for d in _alphas(reading, rule):
            raise Refusal(
                f"{where(reading.sublayers[d.index])} has alpha {d.found:.4g}, the constants have "
                f"{d.wanted:.4g}: put them into the model with apply_ first"
            )
        describe_(model, describe(reading, rule), constants, drawn=False)


def _read(
    model: Any, constants: Constants, inputs: object, roles: Mapping[str, str] | None
) -> tuple[Any, Reading, Wanted]:
    """The model with inputs that it takes, what its forward pass shows, and what is expected."""
    whole = model if isinstance(model, Made) else made(model, inputs)
    reading = as_asked(read(whole, roles=roles), constants)
    return whole, reading, fit(reading, constants)


def _rows(reading: Reading, rule: Wanted) -> list[tuple[FoundSublayer, WantedSublayer]]:
    """The sublayers, each beside the expected one."""
    return list(zip(reading.sublayers, rule.sublayers, strict=True))


# ------------------------------------------------------------------------------------ the layers


def _set_alpha(model: nn.Module, reading: Reading, rule: Wanted) -> list[Change]:
    if not (different := _alphas(reading, rule)):
        return []
    rows = _rows(reading, rule)
    places = Places(model, [s for s, _ in rows])
    if not places.whole:
        raise Refusal(_no_place(reading, different[0]))
    places.multiply([row.alpha / s.alpha for s, row in rows])
    return [Change(where(s), f"norm({row.alpha:.6g}·x + G(x))") for s, row in rows]


def _no_place(reading: Reading, d: Difference) -> str:
    s = reading.sublayers[d.index]
    remedy = "constants exported with form='weights' put it into initial sizes and learning rates"
    if d.found != 1:  # the code has one of its own, which no initial size takes out again
        remedy = f"set it to {d.wanted:.4g} there"
    elif "output" in s.around:  # a norm takes out what a matrix carries
        remedy = f"divide what is behind the branch's norm by {d.wanted:.4g} there"
    return (
        f"the model's code has no place for alpha = {d.wanted:.4g}, it has {d.found:.4g} in "
        f"{where(s)}; {remedy}"
    )


def _draw(model: nn.Module, reading: Reading, rule: Wanted, draw: Draw) -> Iterator[Change]:
    zeros: set[str] = set()
    for s, row in _rows(reading, rule):
        for m in s.matrices:
            if not m.times:
                raise Refusal(f"the forward pass multiplies {m.where} by 0, at any size; {KEPT}")
            gain = row.gain(m)
            std = gain * m.xavier / (1.0 if sublayer(s.kind).experts > 1 else m.times)
            draw(m.name, blocks(model, m), std)
            yield Change(m.where, f"{m.role}, gain {gain:.6g}, standard deviation {std:.6g}")
        for name in (*(m.bias for m in s.matrices), *s.biases):
            if name is not None and name not in zeros:  # packed ones have one in common
                zeros.add(name)
                draw(name, [model.get_parameter(name)], 0.0)
                yield Change(name, "bias, 0")


def _set_epsilons(
    model: nn.Module, reading: Reading, rule: Wanted, large: dict[str, float]
) -> Iterator[Change]:
    """Set a norm's ε where a smaller one is asked for; ``large`` takes up what has no place.

    It is an attribute of the module that has the norm's gain: torch's ``eps``, or the
    ``variance_epsilon`` of Llama's kin.
    """
    for s, row in _rows(reading, rule):
        for norm in (n for n in s.norms if n.where in row.norm_epsilon):
            aim = row.norm_epsilon[norm.where] * NORM_EPS
            owner = vars(model.get_submodule(norm.gain.rpartition(".")[0])) if norm.gain else {}
            names = [n for n in ("eps", "variance_epsilon") if isinstance(owner.get(n), float)]
            if not names:
                large[norm.where] = aim
            elif owner[names[0]] > aim:
                owner[names[0]] = aim
                yield Change(f"{norm.gain}, {names[0]}", f"epsilon {aim:.3g}")


def _draw_behind_gates(
    model: nn.Module, reading: Reading, rule: Wanted, draw: Draw
) -> Iterator[Change]:
    """Draw the last matrices of experts whose gates, once the router is drawn, do not add to 1."""
    for s, row in zip(reading.sublayers, rule.sublayers, strict=True):
        for m in s.matrices if sublayer(s.kind).experts > 1 else ():
            if not math.isclose(m.times, 1, rel_tol=EXACT):
                std = row.gain(m) * m.xavier / m.times
                draw(m.name, blocks(model, m), std)
                what = f"behind gates that add up to {m.times:.4g}, standard deviation {std:.6g}"
                yield Change(m.where, what)


def _not_fresh(model: nn.Module, reading: Reading) -> str:
    """Why the weights should not be drawn anew unasked; no word where they are as made."""
    trained = "these weights look trained, and would be lost"
    for s in reading.sublayers:
        for name in (name for norm in s.norms for name in (norm.gain, norm.bias)):
            if name and (p := model.get_parameter(name)).numel() and p.min() < p.max():
                return f"the entries of {name} differ: {trained}"
        for m in s.matrices:
            w = torch.cat([v.transpose(0, m.axis).flatten(1) for v in blocks(model, m)])
            if not model.get_parameter(m.name).requires_grad:
                return f"{m.name} is frozen, and its weights would be lost"
            if not w.isfinite().all():
                return f"{m.where} has entries that are NaN or infinite: its weights are broken"
            if _stands_out(w):
                return (
                    f"{m.where} has a singular value that independent entries do not have: "
                    f"{trained}"
                )
    return ""


def _stands_out(w: Tensor) -> bool:
    r"""Whether a singular value is one that independent entries do not have.

    Their largest is :math:`\sigma(\sqrt m + \sqrt n)` with fluctuations of scale
    :math:`n^{-2/3}`; w's comes from below, by iteration.
    """
    w = w.float()
    m, n = w.shape
    entries: float = w.square().mean().sqrt().item()
    edge = entries * (math.sqrt(m) + math.sqrt(n)) * (1 + 2 / math.cbrt(min(m, n)) ** 2)
    x = torch.ones(n, device=w.device)
    for _ in range(20):
        x = w.mT @ (w @ x)
        x = x / x.norm().clamp_min(1e-30)
    return float((w @ x).norm()) > EDGE * edge


# ----------------------------------------------------------------------------- embedding and head

NEAR_ONE = 2.0  # a stream's rms within this factor of 1 is what the rules take it to be
EXCESS = 0.04  # of ln V, at most, that a head is drawn to add to the loss at the start
LOSS = 0.05  # of ln V, at most, that the loss may begin above it
SMALL = 0.5  # of the size that a head is drawn at: below it, a head is small
OF_A_TOKEN = {True: 1.0, False: math.sqrt(1 / 2)}  # the size of a table's rows against a token's


def outer_draws(reading: Reading, c: Constants) -> Iterator[tuple[str, str, float]]:
    """Each table and head to draw: parameter, what it is, deviation; no tied or normed table."""
    named: set[str] = set()
    for stack in reading.starts:
        tables = [t for t in reading.tables if t.stack == stack]
        if any(t.name in reading.head for t in tables):
            continue
        unit = 1 / math.sqrt(sum(OF_A_TOKEN[t.of_inputs] ** 2 for t in tables) or 1.0)
        for t in tables:
            if t.name and t.name not in named and t.times:
                named.add(t.name)
                yield t.name, "rows", OF_A_TOKEN[t.of_inputs] * unit / abs(t.times)
    if reading.logits is not None and not is_tied(reading):
        yield reading.logits.head.name, "head", head_std(reading.logits, c)


def _draw_outer(
    model: nn.Module, reading: Reading, c: Constants, initialise: bool | None, draw: Draw
) -> Iterator[Change]:
    for name, what, std in outer_draws(reading, c):
        parameter = model.get_parameter(name)
        fresh = initialise or not _stands_out(parameter.flatten(0, -2))
        if fresh and parameter.requires_grad:
            draw(name, [parameter], std)
            owner = model.get_submodule(name.rpartition(".")[0])
            if isinstance(owner, nn.Embedding) and owner.padding_idx is not None:
                parameter[owner.padding_idx] = 0.0
            yield Change(name, f"{what}, standard deviation {std:.6g}")


def _require_outer(reading: Reading, c: Constants, drawn: Container[str]) -> None:
    """Refuse a stream or a loss that does not start where the rules take it to start."""
    for t in reading.tables:
        if t.name in drawn and not near_one(size := reading.starts[t.stack]):
            raise Refusal(
                f"the {t.stack}'s stream starts at rms {size:.3g} after {t.name} was drawn for 1; "
                f"{KEPT}"
            )
    logits = reading.logits
    if logits is None or not is_high(logits, _with_lines(reading, logits.loss, c)):
        return
    why = f"the loss starts at {logits.loss:.3g}, and ln {logits.head.fan_out} is {logits.even:.3g}"
    if is_tied(reading):
        why += f": no size of {logits.head.name} is right for the embedding and for the head"
    for line, _ in lines_of_logits(reading, c):
        why += f"; write {line.partition('  #')[0]}"
    raise Refusal(f"{why}; {KEPT} (outer=False leaves embedding and head alone)")


def _base_width(c: Constants, width: int) -> int:
    """The width of the base that constants are relative to, else the given one."""
    return width if c.base is None else c.base.width


def head_std(logits: Logits, c: Constants | None = None) -> float:
    """Xavier's deviation at the constants' gain, less where the base's loss would begin high."""
    head, gain, width = logits.head, 1.0, logits.head.fan_in
    if c is not None:
        gain = c.parameter(c.parts[-1].name, None, "head", Role.HEAD).gain
        width = _base_width(c, width)
    xavier_raises = width / (width + head.fan_out) / logits.even  # v/2 over ln V
    less = min(1.0, math.sqrt(EXCESS / xavier_raises))
    return gain * head.xavier * less / max(1.0, head.times * logits.state)


def is_small(logits: Logits, c: Constants | None = None) -> bool:
    return logits.head.size < SMALL * head_std(logits, c)


def is_tied(reading: Reading) -> bool:
    head = reading.logits and reading.logits.head.name
    return head is not None and any(t.name == head for t in reading.tables)


def near_one(size: float) -> bool:
    return 1 / NEAR_ONE < size < NEAR_ONE


def lines_of_code(reading: Reading, c: Constants) -> Iterator[str]:
    """What the forward pass itself must do, as code: no initial size does it."""
    for stack, size in reading.starts.items():
        if "sum" in reading.stacks[stack][0].around or near_one(size) or not size:
            continue
        if tables := [t for t in reading.tables if t.stack == stack]:
            size = math.hypot(*(t.times * t.size for t in tables))  # of all rows, not the batch's
            place = "behind " + " + ".join(dict.fromkeys(t.name for t in tables if t.name))
        else:
            place = f"where the {stack} starts"
        if tables or reading.embeddings:
            yield f"x = x * {1 / size:.4g}  # {place}"
    yield from (line for line, _ in lines_of_base(reading, c))
    logits = reading.logits
    if logits is not None and "sum" in reading.sublayers[-1].around and is_small(logits, c):
        yield (
            f"start_head_(head, counts)  # the bias of a head as small as {logits.head.name}, from "
            "the text's token counts"
        )


def lines_of_base(reading: Reading, c: Constants) -> Iterator[tuple[str, float]]:
    """The numbers that logits and scores are multiplied by in the forward pass, with the line."""
    yield from lines_of_logits(reading, c)
    attentions = (s for s in reading.sublayers if any(m.role == "query" for m in s.matrices))
    if c.scores != 1 and not all(_near(s.scores, c.scores) for s in attentions):
        yield f"scores = scores * {c.scores:.4g}  # beside 1/sqrt(head size)", c.scores


def lines_of_logits(reading: Reading, c: Constants) -> Iterator[tuple[str, float]]:
    """The number that logits are multiplied by in the forward pass, with the line."""
    logits, tied = reading.logits, is_tied(reading)
    times, before = multiplier_of(c), "before the loss"
    if tied and logits is not None and is_high(logits, _with_lines(reading, logits.loss_at_one, c)):
        size = _of_a_token(logits)
        if not _near(size, 1.0):
            base = ", at the base too" * (times != 1)
            own = f"{before}{base}: a token's own is {size:.3g}"
            yield f"logits = logits * {1 / size:.4g}  # {own}", 1 / size
    elif times != 1 and _lacks_multiplier(reading, c):
        rows = ", of rows as large as its own" * tied
        yield f"logits = logits * {times:.4g}  # {before}, as the base asks{rows}", times


def multiplier_of(c: Constants) -> float:
    r"""What the logits of a model of your own are multiplied by, relative to the base.

    By condition (H) :math:`m\,d\,\eta` stays, η the step of the head's entries. The rows of a tied
    matrix keep one size σ, brought to 1 in the forward pass: its step is the base's, and mdσ stays.
    """
    if not (c.architecture.tied_head and c.outer):
        return c.head_multiplier
    width = c.architecture.width
    return c.head_multiplier * math.sqrt(_base_width(c, width) / width)


def _of_a_token(logits: Logits) -> float:
    """The logit that a token's own row has of a tied head: mdσ times the rms of what enters."""
    return logits.head.size * logits.state * logits.head.fan_in


def _near(value: float, aim: float) -> bool:
    return math.isclose(value, aim, rel_tol=0.01)


def _lacks_multiplier(reading: Reading, c: Constants) -> bool:
    """Whether the code multiplies the logits neither as the base asks nor to a token's own of 1."""
    if (logits := reading.logits) is None:
        return True
    settled = is_tied(reading) and _near(_of_a_token(logits), 1.0)
    return not settled and not _near(logits.head.times, multiplier_of(c))


def _with_lines(reading: Reading, loss: float, c: Constants) -> float:
    """A loss at the start once the multiplier of a base is written: v/2 falls as its square."""
    if reading.logits is None or not _lacks_multiplier(reading, c):
        return loss
    return reading.logits.even + (loss - reading.logits.even) * multiplier_of(c) ** 2


def is_high(logits: Logits, loss: float) -> bool:
    """Whether a loss at the start lies above ln V by more than a head drawn right may make it."""
    chance = 3 * math.sqrt(2 / logits.head.fan_out)  # the logits' variance over V outputs
    return loss > (1 + LOSS * (1 + chance)) * logits.even


# ------------------------------------------------------------------------------------ the summary


def _summary(
    reading: Reading, rule: Wanted, c: Constants, changes: Sequence[Change], lines: Sequence[str],
    large: Mapping[str, float],
) -> Iterator[str]:  # fmt: skip
    layers = " and ".join(f"{n} layers of the {name}" for name, n in reading.layers.items())
    gains: dict[str, dict[str, None]] = {}
    for s, row in zip(reading.sublayers, rule.sublayers, strict=True):
        for m in s.matrices:
            gains.setdefault(f"{row.gain(m):.4g}", {})[m.role] = None
    matrices = sum("gain" in change.what for change in changes)
    biases = sum(change.what == "bias, 0" for change in changes)
    yield (
        f"{c.placement} under {c.optimizer}, {layers}: {matrices} matrices drawn, {biases} biases 0"
    )
    if matrices:
        by_gain = (f"{', '.join(roles)} {gain}" for gain, roles in gains.items())
        yield f"gains: {'; '.join(by_gain)}"
    alpha = ", ".join(f"{a:.4g}" for a in sorted({row.alpha for row in rule.sublayers}))
    put = any("·x + G(x)" in change.what for change in changes)
    yield f"alpha {alpha}" + ": put into the forward pass and the state_dict" * put
    rates = _rates(reading, rule, c)
    spans = " to ".join(f"{rate:.4g}" for rate in dict.fromkeys((rates[0], rates[-1])))
    yield f"learning rates: × {spans} by kind, parameter_groups(model, lr)"
    drawn = [f"{change.name}: {change.what}" for change in changes
             if change.what.startswith(("rows,", "head,"))]  # fmt: skip
    starts = [f"the {stack}'s stream starts at rms {x:.3g}" for stack, x in reading.stream.items()]
    if (logits := reading.logits) is not None:
        starts.append(
            f"the loss at {logits.loss:.3g}, ln {logits.head.fan_out} is {logits.even:.3g}"
        )
    yield f"outside the layers: {'; '.join((*drawn, *starts))}"
    smaller = dict.fromkeys(c.what for c in changes if c.what.startswith("epsilon"))
    yield from (f"{what} was set in the norms that need it" for what in smaller)
    for place, aim in large.items():
        yield f"set the epsilon of norms on the {place} to {aim:.3g} in their code"
    yield from _between_stack_and_head(reading)
    yield from (f"to be written in the model's code: {line}" for line in lines)
    if c.condition:
        yield f"to train with it: {c.condition}"


def _between_stack_and_head(reading: Reading) -> Iterator[str]:
    """What no rule speaks of: matrices behind the last sublayer that are not the head."""
    head = reading.logits and reading.logits.head.name
    if between := [name for name in reading.head if head and name != head]:
        yield (
            f"without a rule: {', '.join(between)} between the last sublayer and the head. Its "
            "size and learning rate stay as they are, so the logits may change with depth in one "
            "update; remove it, or give it a rate of its own and measure"
        )
