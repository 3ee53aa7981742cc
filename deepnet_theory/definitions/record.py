"""Frozen dataclasses as plain data: their annotations say what they hold, how they are read.

One way in and one way out for every file and every result: :func:`require` holds a value against
its annotation, :func:`read` makes a value of JSON, :func:`written` JSON of a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from deepnet_theory.definitions.outcome import CONTROLS, InputError, guess, shown, unknown

T = TypeVar("T")
LARGEST = 1e37  # a float32 holds ten times as much; so do weights, a few standard deviations wide
LEVELS = 20  # of plain data that no annotation describes


@dataclass(frozen=True)
class Within:
    """A mark in an annotation: the ends of the numbers that a field takes."""

    least: float
    most: float = LARGEST


OPTIONAL = {"optional": True}  # of a field that JSON has only where it is not the default
POSITIVE, NOT_NEGATIVE = Within(1 / LARGEST), Within(0)


@cache
def hints(kind: type) -> dict[str, Any]:
    """The annotations of a dataclass's fields, with their marks."""
    known = get_type_hints(kind, include_extras=True)
    return {one.name: known[one.name] for one in fields(kind)}


@cache
def _kind(hint: Any) -> tuple[Any, tuple[Any, ...], bool, Within | None]:
    """What an annotation is of: a type, its arguments, whether None will do, and the ends."""
    ends = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Within)), None)
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    optional = get_origin(hint) in (Union, UnionType)
    hint = get_args(hint)[0] if optional else hint
    return get_origin(hint) or hint, get_args(hint), optional, ends


# ------------------------------------------------------------------------------- what is valid


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST  # type: ignore[operator]


def _is_text(value: object) -> bool:
    """Whether it is a text that a file can hold and that commands no terminal."""
    return isinstance(value, str) and CONTROLS.search(value) is None


def _is_plain(value: object, levels: int = LEVELS) -> bool:
    """Whether JSON can hold it in the given number of levels."""
    if isinstance(value, dict):
        keys, values = list(value), list(value.values())
        return levels > 0 and all(map(_is_text, keys)) and _is_plain(values, levels)
    if isinstance(value, list | tuple):
        return levels > 0 and all(_is_plain(v, levels - 1) for v in value)
    return value is None or isinstance(value, bool) or _is_text(value) or _is_number(value)


_SINGLE: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: type(value) is bool, "a boolean"),
    int: (lambda value: type(value) is int, "a whole number"),
    float: (_is_number, f"a number from -{LARGEST:.0e} to {LARGEST:.0e}"),
    str: (_is_text, "text without control characters"),
    Any: (_is_plain, f"plain data, at most {LEVELS} levels deep"),
}


def require(value: object, hint: Any, what: str) -> None:
    """Raise :class:`InputError` where a value is not as its annotation says.

    ``what`` begins the sentence; the fields of a dataclass are named behind it, and the items of a
    tuple by their own ``name`` or ``kind``.
    """
    kind, arguments, optional, ends = _kind(hint)
    if value is None and optional:
        return
    if kind in _SINGLE:
        fits, words = _SINGLE[kind]
        valid = fits(value)
        if ends is not None:
            valid = valid and ends.least <= value <= ends.most  # type: ignore[operator]
            words = f"from {ends.least:.7g} to {ends.most:.7g}"
        if not valid:
            raise InputError(f"{what} must be {words}, not {shown(value)}")
    elif not isinstance(value, kind):
        raise InputError(f"{what} must be a {kind.__name__}, not {shown(value)}")
    elif isinstance(value, tuple):
        for item in value:
            name = getattr(item, "name", None) or getattr(item, "kind", "")
            label = name if _is_text(name) else ""
            require(item, arguments[0], f"{what}: {label}" if label else what)
    elif isinstance(value, dict):
        for key, item in value.items():
            require(key, str, f"a name in {what}")
            require(item, arguments[1], f"{what}: {key!r}")
    else:
        for name, inner in hints(kind).items():
            require(getattr(value, name), inner, f"{what}: {name}")


# ------------------------------------------------------------------------------------ reading


def read(hint: Any, data: Any, what: str) -> Any:
    """Plain data as what an annotation says; the dataclasses check what they hold themselves.

    Raises :class:`InputError` for another shape, a name that no field has and one that is missing.
    """
    kind, arguments, optional, _ = _kind(hint)
    if kind is tuple:
        if not isinstance(data, list | tuple):
            raise InputError(f"{what} must be a JSON list, not {shown(data)}")
        return tuple(read(arguments[0], item, what) for item in data)
    if (kind is not dict and not is_dataclass(kind)) or (optional and data is None):
        return data
    if not isinstance(data, dict):
        raise InputError(f"{what} must be a JSON object, not {shown(data)}")
    if kind is dict:
        return {key: read(arguments[1], item, what) for key, item in data.items()}
    made: Any = kind
    known = hints(made)
    for name in (name for name in data if name not in known):
        valid = f"valid are: {', '.join(known)}{guess(name, known)}"
        raise InputError(f"{what} has no {shown(name)}; {valid}")
    for one in fields(made):
        needed = one.default is MISSING and one.default_factory is MISSING
        if needed and one.name not in data:
            raise InputError(f"{what} lacks {one.name!r}")
    return made(**{name: read(known[name], item, f"{what}: {name}") for name, item in data.items()})


# ------------------------------------------------------------------------------------ writing


def written(value: Any, finite: bool = False) -> Any:
    """Plain data of dataclasses, tuples and dictionaries; what is single stays as it is.

    A field's ``json`` in its metadata is its name there; None leaves it out. ``finite`` makes NaN
    and infinity, which JSON lacks, null.
    """
    if is_dataclass(value) and not isinstance(value, type):
        row = {}
        for one in fields(value):
            item, name = getattr(value, one.name), one.metadata.get("json", one.name)
            factory = one.default_factory
            default = one.default if factory is MISSING else factory()
            if name and not ("optional" in one.metadata and item == default):
                row[name] = item
        value = row
    if isinstance(value, dict):
        return {key: written(item, finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item, finite) for item in value]
    return None if finite and isinstance(value, float) and not math.isfinite(value) else value


# ---- settings, each declared once: default, keyword, command-line option and JSON ----

TEXT = "text"
GAUSSIAN = "gaussian"
STEPS = ("matrices", "all")
ACTIVATIONS = ("relu", "gelu", "silu")
DEVICES = ("auto", "cpu", "cuda")
MOST = 2**20  # of anything that is counted: far more than an experiment has
COUNT, SEVERAL = Within(1, MOST), Within(2, MOST)


@dataclass(frozen=True)
class Option:
    """What a setting is on the command line: its value's name, what it means, some of its values.

    A setting whose ``words`` are ``all`` its values takes no other. A ``folder`` (or several)
    holds a file for each of its values; a flag may have a ``letter``.
    """

    metavar: str
    help: str
    words: tuple[str, ...] = ()
    all: bool = True
    folder: str = ""
    letter: str = ""


@dataclass(frozen=True)
class Setting:
    """One field of a dataclass of settings."""

    name: str
    kind: type
    default: Any
    option: Option


def settings_of(kind: type) -> Iterator[Setting]:
    """The fields of a dataclass that have an option, in their order."""
    known = hints(kind)
    for field in fields(kind):
        if get_origin(known[field.name]) is Annotated:
            yield setting(field.name, known[field.name], field.default)


def setting(name: str, annotation: Any, default: Any) -> Setting:
    """The setting of an annotated field or parameter; one of several types is typed as text."""
    hint, option, *_ = get_args(annotation)
    union = get_origin(hint) in (Union, UnionType)
    kinds = {kind for kind in (get_args(hint) if union else (hint,)) if kind is not NoneType}
    return Setting(name, kinds.pop() if len(kinds) == 1 else str, default, option)


def require_valid(settings: object) -> None:
    """Raise :class:`InputError` that restates the first word that is not valid."""
    for one in settings_of(type(settings)):
        value = getattr(settings, one.name)
        if one.option.words and one.option.all and value not in one.option.words:
            raise unknown(one.name, value, one.option.words)


def require_seed(seed: object) -> None:
    """Raise :class:`InputError` for anything but a whole number from 0 to 2**31 - 1."""
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise InputError(f"seed {shown(seed)} is not a whole number from 0 to 2**31 - 1")


def taken(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """What was given by these names, which ``given`` loses."""
    return {name: given.pop(name) for name in names if name in given}


@dataclass(frozen=True)
class Measurement:
    """What is measured on: ``width`` … ``ffn_ratio`` are the model's, the rest the experiment's.

    ``step`` says which parameters move: the branch ``matrices`` alone, as in the published
    rules, or ``all`` parameters of the branches and norms (embeddings and head stay).
    ``data`` is ``text`` or ``gaussian:CORRELATION``, tokens of that correlation. A seed's value is
    the mean over its ``draws`` of data and weights, which are many so that few seeds suffice.
    Beside the first update, ‖F_T − F_0‖ is measured after T = ``updates`` of them
    at the learning rate ``eta``, the same at every depth.

    Raises :class:`InputError` that restates the first bad value.
    """

    width: Annotated[int, Option("D", "Model width"), SEVERAL] = 64
    heads: Annotated[int, Option("H", "Attention heads"), COUNT] = 4
    tokens: Annotated[int, Option("N", "Tokens a sequence"), COUNT] = 32
    batch: Annotated[int, Option("N", "Sequences a batch"), COUNT] = 1
    seeds: Annotated[int, Option("N", "Independent repetitions"), SEVERAL] = 8
    draws: Annotated[int, Option("N", "Draws a seed is the mean of"), COUNT] = 4
    ffn_ratio: Annotated[
        float, Option("R", "Hidden width over width"), Within(1 / LARGEST, 1024)
    ] = 4.0
    activation: Annotated[str, Option("NAME", "relu, gelu or silu", ACTIVATIONS)] = "relu"
    step: Annotated[str, Option("WHICH", "Step the branch matrices or all parameters", STEPS)] = (
        "matrices"
    )
    data: Annotated[
        str, Option("DATA", "text, or gaussian:CORRELATION of tokens", (TEXT,), all=False)
    ] = TEXT
    device: Annotated[str, Option("NAME", "auto, cpu or cuda", DEVICES, all=False)] = "auto"
    dtype: Annotated[str, Option("NAME", "float32 or float64", ("float32", "float64"))] = "float32"
    seed: Annotated[int, Option("S", "Seed of all random draws")] = 0
    updates: Annotated[int, Option("T", "Also ‖F_T − F_0‖ after T updates"), COUNT] = 1
    eta: Annotated[
        float, Option("ETA", "Learning rate of those updates"), Within(1 / LARGEST, 1e30)
    ] = 2.0**-10

    def __post_init__(self) -> None:
        require(self, Measurement, "a measurement")
        require_valid(self)
        if self.width % self.heads:
            raise InputError(f"width {self.width} is not a multiple of heads {self.heads}")
        require_seed(self.seed)
        if self.ffn_ratio * self.width < 1:
            raise InputError(
                f"ffn-ratio {self.ffn_ratio!r} leaves no hidden unit at width {self.width}"
            )
        _ = self.correlation

    @property
    def correlation(self) -> float | None:
        """The tokens' correlation for Gaussian data, None for text."""
        if self.data == TEXT:
            return None
        kind, _, correlation = str(self.data).partition(":")
        try:
            value = float(correlation) if kind == GAUSSIAN else math.nan
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise InputError(
                f"unknown data {shown(self.data)}; valid are: text, "
                "gaussian:CORRELATION with a number from 0 to 1"
            )
        return value

    def to_dict(self) -> dict[str, object]:
        return asdict(self)
