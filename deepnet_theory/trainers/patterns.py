"""The numbers of a model's parameters as patterns of their names, and how a trainer takes them.

``layers.#.attention.wq.weight`` is that parameter of every layer. A name has the numbers that
:func:`~deepnet_theory.models.groups.parameter_groups` gives it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any, TypeVar

from torch import nn

from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models.applying import Runs, start_
from deepnet_theory.models.groups import parameter_groups
from deepnet_theory.models.places import own_module

T = TypeVar("T")
NUMBERS = ("optimizer", "lr", "eps", "weight_decay", "betas")  # of a pattern, as groups name them
# what torch.compile, FSDP and activation checkpointing put into a name
WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


@dataclass(frozen=True)
class Pattern:
    """The numbers of a group's parameters, ``names`` with an index as ``#``, and their ``role``.

    ``lr_scale`` and ``decay_scale`` are relative to what was given.
    """

    optimizer: str
    lr: float
    eps: float | None
    weight_decay: float
    betas: tuple[float, ...] | None
    lr_scale: float
    decay_scale: float
    names: tuple[str, ...] = ()
    role: str = ""


@dataclass(frozen=True)
class Patterns:
    """The patterns of a ``model``, ``about`` which rule, and ``remarks`` on it.

    ``lr`` and ``weight_decay`` are what was given, ``starts`` the names of what is drawn in one way
    (all else: by the model's own code), ``lines`` what the forward pass lacks.
    """

    model: str
    about: str
    lr: float
    weight_decay: float
    parameters: tuple[str, ...]
    rows: tuple[Pattern, ...]
    starts: dict[Runs, tuple[str, ...]]
    lines: tuple[str, ...]
    remarks: tuple[str, ...]


def patterns_of(model: nn.Module, c: Constants, lr: Any, **given: Any) -> Patterns:
    """The patterns of a fresh model, which is drawn anew.

    ``given`` are arguments of ``parameter_groups``. Raises :class:`Refusal` where the constants do
    not fit the model.
    """
    decay = given.get("weight_decay", 0.0)
    read = {name: given.pop(name, None) for name in ("inputs", "roles")}
    called, model = type(model).__name__, own_module(model)
    starts, lines = start_(model, c, **read)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        groups = parameter_groups(model, lr, **given)
    own = {parameter: _plain(name) for name, parameter in model.named_parameters()}
    numbers, roles = dict[str, Pattern](), dict[Pattern, dict[str, None]]()
    for g in groups:
        whole = _of(decay, g["optimizer"])
        known: Any = {name: g.get(name) for name in (*NUMBERS, "lr_scale")}
        row = Pattern(**known, decay_scale=whole and g["weight_decay"] / whole)
        roles.setdefault(row, {})[g["role"]] = None
        numbers |= dict.fromkeys((own[p] for p in g["params"]), row)
    by_row = generalised(numbers).items()
    rows = tuple(replace(r, names=names, role=", ".join(roles[r])) for r, names in by_row)
    drawn = generalised({_plain(name): runs for name, runs in starts.items()})
    notes = filter(None, dict.fromkeys((*(str(w.message) for w in said), c.warning, c.condition)))
    first = rows[0].optimizer
    tuned = _of(lr, first), _of(decay, first), tuple(numbers)
    return Patterns(called, _about(c), *tuned, rows, drawn, tuple(lines), tuple(notes))


def _of(given: Any, optimizer: str) -> float:
    return float(given[optimizer] if isinstance(given, Mapping) else given)


def _plain(name: str) -> str:
    return ".".join(word for word in name.split(".") if word not in WRAPPERS)


def _about(c: Constants) -> str:
    layers = " and ".join(f"{part.layers} layers of the {part.name}" for part in c.parts)
    base = f", over a base of width {c.base.width}" if c.base else ""
    if c.base and c.base.depth:
        base += f" and depth {', '.join(map(str, c.base.depth.values()))}"
    base += "".join(f", {name} {size}" for name, size in (c.base.shape if c.base else {}).items())
    return f"{c.placement} under {c.optimizer}, {layers}{base}; deepnet-theory {__version__}"


def generalised(numbers: Mapping[str, T]) -> dict[T, tuple[str, ...]]:
    """Of each value its names, with ``#`` for as many of their indices as the values allow."""
    alike: dict[str, list[str]] = {}
    for name in numbers:
        alike.setdefault(_template(name), []).append(name)
    whole: dict[T, tuple[str, ...]] = {}
    for group in alike.values():
        places = [i for i, word in enumerate(group[0].split(".")) if word.isdigit()][::-1]
        # of the indices that must stay, those inside of a layer first
        for kept in (k for n in range(len(places) + 1) for k in combinations(places, n)):
            found = {_template(name, kept): numbers[name] for name in group}
            if all(found[_template(name, kept)] == numbers[name] for name in group):
                break
        for template, value in found.items():
            whole[value] = (*whole.get(value, ()), template)
    return whole


def _template(name: str, kept: tuple[int, ...] = ()) -> str:
    words = enumerate(name.split("."))
    return ".".join("#" if word.isdigit() and i not in kept else word for i, word in words)


def names(*templates: str) -> str:
    """One expression for parameters: # is an index, and wrappers may come between the words."""
    words = (re.escape(t).replace(r"\.", r"\.(_\w+\.)*").replace(r"\#", r"\d+") for t in templates)
    return rf"^(module\.|_\w+\.)*({'|'.join(words)})$"


def glob(template: str, parameters: Iterable[str]) -> str:
    """The shell pattern for a name, wrapped or not, that matches no other parameter.

    Raises :class:`Refusal` where it would match another one.
    """
    plain = "*" + template.replace("#", "*")
    wide = plain.replace(".*.", ".*").replace(".", ".*").replace("**", "*")
    for name in parameters:
        written = (f"{word}.{name.replace('.', f'.{word}.')}" for word in WRAPPERS)
        found = any(fnmatchcase(other, wide) for other in (name, *written))
        if found and not re.search(names(template), name):
            raise Refusal(f"the shell pattern {wide} for {template} matches {name}, too")
    return wide
