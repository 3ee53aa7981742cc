"""α and β put into a model that somebody already has."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.fitting import (
    EXACT,
    blocks,
    describe,
    fit,
    multiplied_values,
    multiplier,
    where,
)
from deepnet_theory.runtime.linear import NORM_EPS, describe_, mark_of
from deepnet_theory.runtime.outer import (
    is_tied,
    keep_padding,
    lines_of_code,
    lines_of_logits,
    near_one,
    outer_draws,
    starts_high,
)
from deepnet_theory.runtime.scaling import Places, own_module, restored_on_error
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import DeepNetTheoryError, Refusal
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.results.reading import Reading
from deepnet_theory.spec.subject import Difference, Wanted, as_asked, differences
from deepnet_theory.spec.sublayer import sublayer


class Draw(Protocol):
    """Views of a parameter, drawn at a deviation, or filled with what they ``start`` at."""

    def __call__(
        self, name: str, views: Iterable[Tensor], std: float, start: float | None = None
    ) -> None: ...


CHANCE = 1e-6  # of refusing a model whose matrices were drawn as they should
EDGE = 1.1  # times the largest singular value that independent entries have


@dataclass(frozen=True)
class Change:
    """What happened to one matrix, vector or residual sum."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class Applied:
    """What was done: ``changes`` has all of it in order, ``summary`` a line of each kind.

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

    ``initialise=False`` sets α alone; weights that look trained are redrawn with
    ``initialise=True`` only; a model that has these constants is left as it is. The forward pass
    is then read once more. Raises :class:`Refusal` where that does not show the constants, for a
    model that was not understood or does not fit, and for parameters spread over processes; any
    error, an interrupt too, leaves the model as it was.
    """
    constants = checked(constants)
    constants.warn()
    own = own_module(model)
    with restored_on_error(own) as keep:

        def draw(
            name: str, views: Iterable[Tensor], std: float, start: float | None = None
        ) -> None:
            keep(own.get_parameter(name))
            for view in views:
                if start is not None:
                    view.fill_(start)
                elif std:  # anew, as a view need not be dense
                    view.copy_(torch.empty_like(view).normal_(0.0, std, generator=generator))
                else:
                    view.zero_()

        return _applied(own, constants, inputs, roles, initialise, outer, draw)


def _applied(
    model: nn.Module, constants: Constants, inputs: object, roles: Mapping[str, str] | None,
    initialise: bool | None, outer: bool, draw: Draw,
) -> Applied:  # fmt: skip
    whole, found, rule = _read(model, constants, inputs, roles)
    if multiplied := multiplied_values(model, whole, found.sublayers):
        raise Refusal(multiplied)
    marks = ((constants, True), *([] if initialise else [(constants, False)]))
    if mark_of(model) in marks and not _alphas(found, rule):
        return Applied(())
    drawn = initialise is not False
    if initialise is None and (trained := _trained(model, found)):
        raise Refusal(
            f"{trained}: these weights look trained, and would be lost; say initialise=True to "
            "draw them anew, or initialise=False to set alpha alone"
        )
    changes = _set_alpha(model, found, rule)
    if drawn and outer:  # first, so that one generator gives the same at every depth
        changes += _draw_outer(model, found, constants, initialise, draw)
    large: dict[str, float] = {}
    if drawn:
        changes += _draw(model, found, rule, draw)
        changes += _set_epsilons(model, found, rule, large)
    if drawn and any(sublayer(s.kind).experts > 1 for s in found.sublayers):
        changes += _draw_behind_gates(model, *_read(whole, constants, None, roles)[1:], draw)
    try:
        _, again, asked = _read(whole, constants, None, roles)
        left = _alphas(again, asked)
    except DeepNetTheoryError:  # of what was put in, for it was read before
        if not (left := _alphas(found, rule)):
            raise
    if left:
        raise Refusal(f"{_no_place(found, left[0])}; nothing was changed")
    for d in differences(again, rule, EXACT, CHANCE) if drawn else ():
        if d.matrix is None:
            raise Refusal(
                f"{again.sublayers[d.index].learnt} was set and alpha is {d.found:.4g}, wanted "
                f"{d.wanted:.4g}; nothing was changed"
            )
        size, aim = (gain * d.matrix.xavier for gain in (d.found, d.wanted))
        raise Refusal(
            f"{d.matrix.where} enters the forward pass with entries of rms {size:.4g} after it was "
            f"drawn with {aim:.4g}; nothing was changed"
        )
    if drawn and outer:
        _require_outer(again, constants, {change.name for change in changes})
    describe_(model, describe(found, rule), constants, drawn=drawn)
    lines = tuple(lines_of_code(again, constants)) if drawn else ()
    summary = _summary(again, rule, constants, changes, lines, large)
    return Applied(tuple(changes), tuple(summary), lines)


def _alphas(found: Reading, rule: Wanted) -> list[Difference]:
    """The sublayers whose α, where it is in the code, is another one."""
    different = (d for d in differences(found, rule, EXACT) if d.item == "alpha")
    return [d for d in different if not rule.sublayers[d.index].learnt]


def read_(
    model: nn.Module, constants: Constants, inputs: object, roles: Mapping[str, str] | None
) -> None:
    """Keep in a model what its parameters are to the constants, which it must already have.

    Raises :class:`Refusal` where it has another α.
    """
    model = own_module(model)
    with restored_on_error(model):
        _, found, rule = _read(model, constants, inputs, roles)
        for d in _alphas(found, rule):
            raise Refusal(
                f"{where(found.sublayers[d.index])} has alpha {d.found:.4g}, the constants have "
                f"{d.wanted:.4g}: put them into the model with apply_ first"
            )
        describe_(model, describe(found, rule), constants, drawn=False)


def _read(
    model: Any, constants: Constants, inputs: object, roles: Mapping[str, str] | None
) -> tuple[Any, Reading, Wanted]:
    """The model with inputs that it takes, what its forward pass shows, and what is wanted."""
    # the reader is of a room above this one, and somebody else's model alone needs it
    from deepnet_theory.models import Made, made, read

    whole = model if isinstance(model, Made) else made(model, inputs)
    found = as_asked(read(whole, roles=roles), constants)
    return whole, found, fit(found, constants)


def _set_alpha(model: nn.Module, found: Reading, rule: Wanted) -> list[Change]:
    if not (different := _alphas(found, rule)):
        return []
    own = [(found.sublayers[i], rule.sublayers[i]) for i in found.distinct]
    places = Places(model, [s for s, _ in own])
    if not places.whole:
        raise Refusal(_no_place(found, different[0]))
    places.multiply([row.alpha / s.alpha for s, row in own])
    return [Change(where(s), f"norm({row.alpha:.6g}·x + G(x))") for s, row in own]


def _no_place(found: Reading, d: Difference) -> str:
    if d.found != 1:  # the code has one of its own, which no initial size takes out again
        remedy = f"set it to {d.wanted:.4g} there"
    elif "output" in found.sublayers[d.index].around:  # a norm takes out what a matrix carries
        around = found.sublayers[d.index].around
        remedy = f"divide what is behind the branch's norm by {d.wanted:.4g} there"
        for other in placements().values():
            if other.learnt and other.norms == around:
                remedy += (
                    f", or take the placement {other.name}, whose alpha starts that norm's gain"
                )
    else:
        remedy = (
            "constants exported with form='weights' put it into initial sizes and learning rates"
        )
    return (
        f"the model's code has no place for alpha = {d.wanted:.4g}, it has {d.found:.4g} in "
        f"{where(found.sublayers[d.index])}; {remedy}"
    )


def _draw(model: nn.Module, found: Reading, rule: Wanted, draw: Draw) -> Iterator[Change]:
    zeros: set[str] = set()
    for s, row in ((found.sublayers[i], rule.sublayers[i]) for i in found.distinct):
        for m in s.matrices:
            gain = row.gain(m)
            std = gain * m.xavier
            draw(m.name, blocks(model, m), std)
            yield Change(m.where, f"{m.role}, gain {gain:.6g}, standard deviation {std:.6g}")
        if s.learnt and (parameter := s.learnt_parameter) and row.learnt:
            own = multiplier(model, s.learnt)
            size = float(own.square().mean().sqrt())
            start = s.alpha / row.alpha * size if size else 1 / row.alpha
            if s.start:  # a norm's gain, which may be written as 1 + w
                start = float(own.mean()) + s.start * (s.alpha / row.alpha - 1)
            draw(parameter, [own], 0.0, start)
            yield Change(s.learnt, f"learnt multiplier, {start:.6g}")
        for name in (*(m.bias for m in s.matrices), *s.biases):
            if name is not None and name not in zeros:  # packed ones have one in common
                zeros.add(name)
                draw(name, [model.get_parameter(name)], 0.0)
                yield Change(name, "bias, 0")


def _set_epsilons(
    model: nn.Module, found: Reading, rule: Wanted, large: dict[str, float]
) -> Iterator[Change]:
    """Set a norm's ε where a smaller one is asked for; ``large`` takes up what has no place.

    It is an attribute of the module that has the norm's gain: torch's ``eps``, or the
    ``variance_epsilon`` of Llama's kin.
    """
    for s, row in ((found.sublayers[i], rule.sublayers[i]) for i in found.distinct):
        for norm in (n for n in s.norms if n.where in row.norm_epsilon):
            aim = row.norm_epsilon[norm.where] * NORM_EPS
            gain = norm.gain or (s.learnt_parameter if s.start and norm.where == "output" else None)
            owner = model.get_submodule(gain.rpartition(".")[0]) if gain else nn.Module()
            names = [
                n for n in ("eps", "variance_epsilon") if isinstance(vars(owner).get(n), float)
            ]
            if not names:
                large[norm.where] = aim
            elif getattr(owner, names[0]) > aim:
                setattr(owner, names[0], aim)
                yield Change(f"{gain}, {names[0]}", f"epsilon {aim:.3g}")


def _draw_behind_gates(
    model: nn.Module, found: Reading, rule: Wanted, draw: Draw
) -> Iterator[Change]:
    """Draw the last matrices of experts whose gates, once the router is drawn, do not add to 1."""
    for s, row in zip(found.sublayers, rule.sublayers, strict=True):
        for m in s.matrices if sublayer(s.kind).experts > 1 else ():
            if not math.isclose(m.times, 1, rel_tol=EXACT):
                std = row.gain(m) * m.xavier / m.times
                draw(m.name, blocks(model, m), std)
                what = f"behind gates that add up to {m.times:.4g}, standard deviation {std:.6g}"
                yield Change(m.where, what)


def _draw_outer(
    model: nn.Module, found: Reading, c: Constants, initialise: bool | None, draw: Draw
) -> Iterator[Change]:
    for name, what, std in outer_draws(found, c):
        parameter = model.get_parameter(name)
        fresh = initialise or not _stands_out(parameter.flatten(0, -2))
        if fresh and parameter.requires_grad:
            draw(name, [parameter], std)
            keep_padding(model, name)
            yield Change(name, f"{what}, standard deviation {std:.6g}")


def _require_outer(found: Reading, c: Constants, drawn: Container[str]) -> None:
    """Refuse a stream or a loss that does not start where the rules take it to start."""
    for t in found.tables:
        if t.name in drawn and not near_one(size := found.starts[t.stack]):
            raise Refusal(
                f"the {t.stack}'s stream starts at rms {size:.3g} after {t.name} was drawn for 1; "
                "nothing was changed"
            )
    logits = found.logits
    if logits is None or not starts_high(found, c):
        return
    why = f"the loss starts at {logits.loss:.3g}, and ln {logits.head.fan_out} is {logits.even:.3g}"
    if is_tied(found):
        why += f": no size of {logits.head.name} is right for the embedding and for the head"
    for line in lines_of_logits(found, c):
        why += f"; write {line.partition('  #')[0]}"
    raise Refusal(f"{why}; nothing was changed (outer=False leaves embedding and head alone)")


def _trained(model: nn.Module, found: Reading) -> str:
    """A parameter that is not as a model begins with, and why; no word where all are."""
    for s in found.sublayers:
        vectors = [name for norm in s.norms for name in (norm.gain, norm.bias)]
        for name in (*vectors, s.learnt):
            if name and (p := multiplier(model, name)).numel() and p.min() < p.max():
                return f"the entries of {name} differ"
        for m in s.matrices:
            w = torch.cat([v.transpose(0, m.axis).flatten(1) for v in blocks(model, m)])
            if _stands_out(w):
                return f"{m.where} has a singular value that independent entries do not have"
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


def _summary(
    found: Reading,
    rule: Wanted,
    c: Constants,
    changes: Sequence[Change],
    lines: Sequence[str],
    large: Mapping[str, float],
) -> list[str]:
    layers = " and ".join(f"{n} layers of the {name}" for name, n in found.layers.items())
    gains: dict[str, list[str]] = {}
    for s, row in zip(found.sublayers, rule.sublayers, strict=True):
        for m in s.matrices:
            of = gains.setdefault(f"{row.gain(m):.4g}", [])
            of += [m.role] if m.role not in of else []
    told = "; ".join(f"{', '.join(of)} {gain}" for gain, of in gains.items())
    matrices = sum("gain" in change.what for change in changes)
    biases = sum(change.what == "bias, 0" for change in changes)
    alphas = sorted({row.alpha for row in rule.sublayers})
    alpha = ", ".join(f"{a:.4g}" for a in alphas)
    placed = any("·x + G(x)" in change.what for change in changes)
    learnt = any(row.learnt for row in rule.sublayers)
    into = "put into the forward pass and the state_dict" if placed else "nothing to put in"
    into = "1/alpha is what the learnt multipliers start at" if learnt else into
    rates = sorted({
        c.parameter(d.part or "", d.sublayer, d.name, d.role).rate
        for own in describe(found, rule).values() for d in own if d.sublayer is not None
    })  # fmt: skip
    spans = f"× {rates[0]:.4g} to {rates[-1]:.4g}" if len(rates) > 1 else f"× {rates[0]:.4g}"
    return [
        f"{' and '.join(c.placements)} under {c.optimizer}, {layers}: {matrices} matrices drawn, "
        f"{biases} biases 0",
        f"gains: {told}" if matrices else "gains: left as they were",
        f"alpha {alpha}: {into}",
        f"learning rates: {spans} by kind, parameter_groups(model, lr)",
        f"outer parts: {_outside(found, changes, large)}",
        *(f"to be written in the model's code: {line}" for line in lines),
        *([f"to train with it: {c.condition}"] if c.condition else []),
    ]


def _outside(found: Reading, changes: Sequence[Change], large: Mapping[str, float]) -> str:
    """What was drawn of embedding and head, what stays, and where stream and loss start."""
    drawn = {c.name: c.what for c in changes if c.what.startswith(("rows,", "head,"))}
    told = [f"{name} {what.rpartition(' ')[2]}" for name, what in drawn.items()]
    told = [f"drawn: {', '.join(told)}"] if told else []
    left = [name for name in (*found.embeddings, *found.head) if name not in drawn]
    more = ["…"] if len(left) > 2 else []
    told.append(f"left alone: {', '.join(('norms', *dict.fromkeys(left[:2]), *more))}")
    smaller = dict.fromkeys(c.what for c in changes if c.what.startswith("epsilon"))
    told += [f"{what} was set in the norms that need it" for what in smaller]
    for at, aim in large.items():
        told.append(f"set the epsilon of norms on the {at} to {aim:.3g} in their code")
    told += [
        f"the {stack}'s stream starts at rms {size:.3g}" for stack, size in found.stream.items()
    ]
    if (logits := found.logits) is not None:
        told.append(f"the loss at {logits.loss:.3g}, ln {logits.head.fan_out} is {logits.even:.3g}")
    return "; ".join(told)
