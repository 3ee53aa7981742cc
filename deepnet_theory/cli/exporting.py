"""A rule by the parameter names of a model, in the form of a trainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from deepnet_theory.cli.deriving import export, refuse
from deepnet_theory.definitions.constants import Architecture
from deepnet_theory.definitions.discovery import choose
from deepnet_theory.definitions.optimizer import optimizer as optimizer_named
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.record import Option
from deepnet_theory.definitions.selection import Selection

if TYPE_CHECKING:
    from deepnet_theory.definitions.constants import Constants
    from deepnet_theory.definitions.reading import Reading

T = TypeVar("T")
LR = 1e-3


def export_for(
    model: str,
    *,
    for_: Annotated[str | None, Option("NAME", "Trainer for a MODEL", folder="trainers")] = None,
    optimizers: Annotated[
        str | None, Option("ROLE=NAME,…", "Optimizers by role: hidden=muon,*=adamw")
    ] = None,
    lr: Annotated[str | None, Option("LR", "Learning rate (0.001), or muon=LR,adamw=LR")] = None,
    weight_decay: Annotated[str | None, Option("WD", "Weight decay of the base")] = None,
    eps: Annotated[str | None, Option("EPS", "Epsilon of the base")] = None,
    betas: Annotated[str | None, Option("B1,B2", "Betas of the optimizer")] = None,
    **given: Any,
) -> tuple[str, tuple[str, ...]]:
    """The numbers of a model's parameters by name: the text for a trainer, and remarks on it.

    ``model`` is FILE.py:FACTORY, made at the ``depth`` and ``width`` of ``given``, which may also
    have an ``optimizer``, a ``closure``, ``heads`` and what relates the numbers to a base. All else
    is read in one forward pass. Raises :class:`Refusal` for a model without a rule.
    """
    import torch

    from deepnet_theory.models.factory import load_factory
    from deepnet_theory.models.reading import read
    from deepnet_theory.trainers.patterns import patterns_of
    from deepnet_theory.trainers.trainer import trainers

    if for_ is None:
        raise InputError(f"a MODEL needs --for; valid are: {', '.join(trainers())}")
    form = choose("trainer", for_, trainers())
    depth, width, heads = (given.pop(name, None) for name in ("depth", "width", "heads"))
    hybrid = _by_name("optimizers", optimizers, str)
    if isinstance(hybrid, str):
        raise InputError(f"optimizers {hybrid!r} names no role; give hidden=muon,*=adamw")
    rest = "adamw" if hybrid is None else hybrid.get("*", "adamw")
    under = optimizer_named(given.pop("optimizer", rest)).name
    closure = given.pop("closure", None)
    is_read = (one.name for kind in (Selection, Architecture) for one in fields(kind))
    refuse(given, "with a MODEL, which is read", *is_read)
    if depth is not None and not str(depth).isdigit():
        raise InputError(f"depth {depth!r} is not a whole number, as a MODEL's factory takes it")
    try:
        one, two = (None, None) if betas is None else map(float, betas.split(","))
    except ValueError:
        raise InputError(f"betas {betas!r} are not two numbers, such as 0.9,0.95") from None
    whole = load_factory(model).seeded(0, None if depth is None else int(depth), width=width)
    constants = constants_for(read(whole), under, closure=closure, heads=heads, **given)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        patterns = patterns_of(
            whole.module,
            constants,
            LR if lr is None else _by_name("lr", lr, float),
            eps=_by_name("eps", eps, float),
            weight_decay=_by_name("weight-decay", weight_decay, float) or 0.0,
            optimizers=hybrid,
            betas=None if one is None else {under: (one, two)},
            inputs=whole.keywords or whole.inputs,
        )
    return form.text(patterns), patterns.remarks


def constants_for(
    reading: Reading, under: str, closure: str | None = None, heads: int | None = None, **given: Any
) -> Constants:
    """The constants of the rule for a model that was read; ``given`` relate them to a base.

    Without ``heads`` the head size is taken to be that of the base.
    """
    from deepnet_theory.models.applying import is_tied
    from deepnet_theory.sizes.wanted import selection_of

    matrices = [m for s in reading.sublayers for m in s.matrices]
    wide = matrices[0].fan_in
    return export(
        replace(selection_of(reading, under), closure=closure),
        list(reading.layers.values()),
        width=wide,
        heads=heads or wide,  # divides any base
        vocab=reading.logits.head.fan_out if reading.logits else wide,
        bias=any(m.bias for m in matrices),
        tied_head=is_tied(reading),
        **given,
    )


def _by_name(what: str, text: str | None, read: Callable[[str], T]) -> T | dict[str, T] | None:
    """A value, or values by name: ``0.001`` or ``muon=0.02,adamw=0.001``."""
    try:
        if text is None or "=" not in text:
            return None if text is None else read(text)
        pairs = (pair.partition("=") for pair in text.split(","))
        return {name.strip(): read(value.strip()) for name, _, value in pairs}
    except ValueError:
        valid = "a number, such as 0.001, nor one of each optimizer: muon=0.02,adamw=0.001"
        raise InputError(f"{what} {text!r} is not {valid}") from None
