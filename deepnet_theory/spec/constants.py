"""The exported constants: everything a builder needs, and where each number came from.

Standard library only; ``runtime`` reads these without SymPy. Reading is strict: a damaged,
truncated, hostile or unknown-version file gives one :class:`InputError`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict, TypeVar

from deepnet_theory.spec.errors import InputError, UnstableWarning, shown, unknown
from deepnet_theory.spec.files import read_text, write_text
from deepnet_theory.spec.norm import norm
from deepnet_theory.spec.parameter import KNOBS, ParameterConstants, ParameterRule
from deepnet_theory.spec.placement import RESIDUAL_GAIN, STREAM_GAIN, Placement, placement
from deepnet_theory.spec.settings import ACTIVATIONS, Option
from deepnet_theory.spec.stack import described_layer, in_turn, stack, written_share
from deepnet_theory.spec.sublayer import MATRICES, Role, sublayer, sublayers

if TYPE_CHECKING:
    from deepnet_theory.spec.rule import Rule
    from deepnet_theory.spec.selection import Selection

FORMS = ("forward", "weights")
SCHEMA = "deepnet-theory/constants/1"
MAX_BYTES = 1_000_000  # a constants file is a few kilobytes
LARGEST = 1e37  # a float32 holds ten times as much; so do weights, a few standard deviations wide
LEVELS = 20  # of what is kept for people

_OF_NORMS = {Role.NORM_GAIN: "norm_gain", Role.NORM_BIAS: "norm_bias"}
# of no sublayer; "token_embedding" is that of a model whose embedding has no multiplier
OUTER = ("embedding", "token_embedding", "head", "head_bias", *_OF_NORMS.values())
OF_A_BASE: dict[str, Any] = {"head_multiplier": 1.0, "scores": 1.0, "outer": {}}

T = TypeVar("T")


@dataclass(frozen=True)
class SublayerConstants:
    """α and β of one kind of sublayer of a part's layer.

    ``gains`` are those of single matrices by name, in place of β; ``rate`` is κ, the
    learning-rate multiplier of the scaled matrices. ``parameters`` has for each kind of
    parameter by name all that it starts and steps with, the rate included. ``norm_epsilon`` is what
    the ε of a norm is multiplied by, for each of :attr:`Placement.places` where it is not 1.
    The branch of a ``parallel`` one joins the residual sum of the one before it. ``layers`` says
    how many layers have it, where not all do, and ``placement`` its own residual equation, where
    it is not that of the constants.
    """

    kind: str
    alpha: float
    beta: float
    rate: float = 1.0
    gains: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, ParameterConstants] = field(default_factory=dict)
    norm_epsilon: dict[str, float] = field(default_factory=dict)
    parallel: bool = False
    layers: int = 0
    placement: str = ""

    def gain(self, matrix: str) -> float:
        """The Xavier-normal gain of a matrix: its own, else β where it is scaled, else 1."""
        scaled = (m.name for m in sublayer(self.kind).scaled)
        return self.gains.get(matrix, self.beta if matrix in scaled else 1.0)


class Placed(NamedTuple):
    """A residual sublayer where layers are not all alike: its equation and its numbers."""

    placement: Placement
    constants: SublayerConstants


@dataclass(frozen=True)
class PartConstants:
    """One part of the stack: its number of layers, and its layer's sublayers in order.

    ``multipliers`` are learning-rate multipliers by role
    (:class:`~deepnet_theory.spec.sublayer.Role` values), for parameters that their sublayer says
    nothing of; a role that is absent takes 1. Each layer is used ``uses`` times: ``layers`` over
    ``uses`` of them have parameters of their own, and are looped.
    """

    name: str
    layers: int
    causal: bool
    sublayers: tuple[SublayerConstants, ...]
    multipliers: dict[str, float] = field(default_factory=dict)
    uses: int = 1

    def described(self, between: str = ", ") -> str:
        """The layer by its kinds, a plus between the branches of one sum."""
        own = [s for s in self.sublayers if not s.placement]
        shares = [written_share(Fraction(s.layers or self.layers, self.layers)) for s in own]
        kinds = zip(shares, own, strict=True)
        return described_layer(((share + s.kind, s.parallel) for share, s in kinds), between)

    @property
    def alike(self) -> bool:
        """Whether all layers have all sublayers, by one residual equation."""
        return not any(s.layers or s.placement for s in self.sublayers)

    @property
    def distinct(self) -> int:
        """How many layers have parameters of their own."""
        return self.layers // self.uses

    def in_layer(self, index: int) -> list[SublayerConstants]:
        """What one layer has, counted from 0 at the bottom."""
        counts = [s.layers or self.layers for s in self.sublayers]
        return [self.sublayers[place] for place in in_turn(counts, self.layers, index)]


@dataclass(frozen=True)
class Architecture:
    """Sizes that the rule does not depend on."""

    width: Annotated[int, Option("D", "Model width")] = 512
    heads: Annotated[int, Option("H", "Attention heads")] = 8
    kv_heads: Annotated[int | None, Option("H", "Key and value heads; as many as heads")] = None
    ffn_ratio: Annotated[float, Option("R", "Hidden width over width")] = 4.0
    vocab: Annotated[int, Option("V", "Vocabulary, of bytes")] = 256
    activation: Annotated[str, Option("NAME", "relu, gelu or silu", ACTIVATIONS)] = "relu"
    bias: Annotated[bool, Option("", "Bias vectors; with them")] = True
    tied_head: Annotated[bool, Option("", "Share embedding and output head")] = False
    head_bias: Annotated[
        bool, Option("", "A bias on the output head, which train starts at the log-unigram")
    ] = False
    dropout: Annotated[float, Option("P", "Dropout")] = 0.0
    residual_gain: float | None = None  # initial value of a learnable scalar on every branch

    def __post_init__(self) -> None:
        _check_architecture(self)

    @property
    def hidden_width(self) -> int:
        """The width between the matrices of a feed-forward branch."""
        return round(self.ffn_ratio * self.width)

    @property
    def kv_width(self) -> int:
        """The width of keys and values: grouped heads are narrower than the model."""
        return (self.kv_heads or self.heads) * (self.width // self.heads)


class Sizes(TypedDict, total=False):
    """The fields of an :class:`Architecture`, as keywords."""

    width: int
    heads: int
    kv_heads: int | None
    ffn_ratio: float
    vocab: int
    activation: str
    bias: bool
    tied_head: bool
    head_bias: bool
    dropout: float
    residual_gain: float | None


@dataclass(frozen=True)
class Constants:
    """The constants of one model.

    ``form`` says where α is: in the ``forward`` pass, or in the ``weights``, the initial size and
    the multipliers of each branch's last matrix, every ``alpha`` being 1.
    ``warning`` is what to know before training, ``condition`` what training needs beside the
    constants; both are empty where there is nothing.
    What is relative to a smaller model, the base: ``head_multiplier`` multiplies what enters the
    head, ``scores`` those of attention beside 1/√k, k the head size, and ``outer`` is what
    embedding, head, ``norm_gain`` and ``norm_bias`` of the final norm start and step with.
    ``origin`` records where the numbers came from: the rule's formulas in N and M, the
    selection, the package's version. It is information for people, never read by a builder.
    """

    stack: str
    placement: str
    norm: str
    parts: tuple[PartConstants, ...]
    architecture: Architecture = field(default_factory=Architecture)
    optimizer: str = "custom"
    update: str = ""
    eta: float = 1.0
    form: str = "forward"
    warning: str = ""
    condition: str = ""
    head_multiplier: float = 1.0
    scores: float = 1.0
    outer: dict[str, ParameterConstants] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def of(
        cls,
        selection: Selection,
        rule: Rule,
        depth: Mapping[str, int],
        architecture: Architecture,
        parameters: Sequence[ParameterRule] = (),
        form: str = "forward",
        warning: str = "",
        condition: str = "",
        origin: dict[str, Any] | None = None,
    ) -> Constants:
        """The constants of ``selection``'s stack under ``rule`` at a depth such as ``{"N": 8}``.

        ``parameters`` are the formulas of every kind of parameter. Raises :class:`InputError`
        where the rule has no positive, finite value at that depth, or says nothing of a sublayer.
        """
        parts = []
        for part in selection.the_stack.parts:
            entries = ((s.name, rule.entry(part.name, s.name)) for s in part.layer)
            layers = depth[part.depth]
            counts = [share * layers for share in part.shares]
            if wrong := [count for count in counts if count.denominator > 1]:
                raise InputError(
                    f"{part.described} does not stand in {layers} layers: a sublayer "
                    f"would be in {wrong[0]} of them"
                )
            having = (int(count) if count != layers else 0 for count in counts)
            joined = zip(entries, part.parallel, having, strict=True)
            # an entry may be of all kinds, and have gains of other kinds' matrices
            own = {s.name: {m.name for m in s.matrices} for s in part.layer}
            values = tuple(
                SublayerConstants(
                    kind,
                    *entry.at(**depth),
                    entry.rate_at(**depth),
                    {m: gain for m, gain in entry.gains_at(**depth).items() if m in own[kind]},
                    {
                        p.name: p.at(**depth)
                        for p in parameters
                        if (p.part, p.sublayer) == (part.name, kind)
                    },
                    entry.norm_epsilon_at(**depth),
                    parallel,
                    own_layers,
                )
                for (kind, entry), parallel, own_layers in joined
            )
            uses = layers // part.distinct(layers)
            parts.append(PartConstants(part.name, layers, part.causal, values, uses=uses))
        optimizer = selection.the_optimizer
        return cls(
            stack=selection.stack,
            placement=selection.placement,
            norm=selection.norm,
            parts=tuple(parts),
            architecture=architecture,
            optimizer=optimizer.name,
            update=optimizer.update,
            eta=rule.eta_at(**depth),
            form=form,
            warning=warning,
            condition=condition,
            origin=origin or {},
        )

    def parameter(
        self, part: str, sublayer: int | None, name: str, role: Role
    ) -> ParameterConstants:
        """What a kind of parameter starts and steps with, η's factor besides.

        ``sublayer`` is the index within a layer, None for embedding, head and final norm. What
        nothing is said of takes the multipliers of its role, and no weight decay where it is a
        vector.
        """
        own = next(p for p in self.parts if p.name == part)
        if not name.startswith("inner_"):  # a norm around the branch
            name = _OF_NORMS.get(role, name)
        if sublayer is None and name in self.outer:
            return self.outer[name]
        of = None if sublayer is None else own.sublayers[sublayer]
        if of is not None and name in of.parameters:
            return of.parameters[name]
        rate = own.multipliers.get(role.value, 1.0)
        if of is not None and role is Role.SCALED:
            rate *= of.rate
        gain = of.gain(name) if of is not None and role in MATRICES else 1.0
        return ParameterConstants(gain, rate, weight_decay=float(role in MATRICES))

    def placed(self, of: SublayerConstants) -> Placement:
        """The residual equation of a sublayer."""
        return placement(of.placement or sublayer(of.kind).placement or self.placement)

    @property
    def placements(self) -> tuple[str, ...]:
        """Those of the sublayers, each once."""
        every = (self.placed(s).name for part in self.parts for s in part.sublayers)
        return tuple(dict.fromkeys(every))

    def beside(self, other: Constants) -> Constants:
        """These constants with those of another placement, for a stack that has both.

        A sublayer's share of the balance is one of S, whatever stands below and above it, so that
        each takes what its own placement has at the depth of the whole stack. Raises
        :class:`InputError` where they are of two models, of two optimizers or of two parts.
        """
        alike = ("stack", "norm", "optimizer", "update", "eta", "form", "scores", "outer")
        apart = [name for name in alike if getattr(self, name) != getattr(other, name)]
        mine, theirs = ([(p.layers, p.described()) for p in c.parts] for c in (self, other))
        apart += ["their parts"] * (mine != theirs or len(mine) > 1)
        apart += ["placement, which is to be another"] * (other.placement in self.placements)
        if apart:
            raise InputError(
                "constants stand beside those of another placement for one stack of one part; "
                f"these differ in {', '.join(apart)}"
            )
        ((part, beside),) = zip(self.parts, other.parts, strict=True)
        more = (replace(s, placement=s.placement or other.placement) for s in beside.sublayers)
        parts = (replace(part, sublayers=(*part.sublayers, *more)),)
        origin = {**self.origin, "beside": other.origin}
        return replace(self, parts=parts, origin=origin)

    def warn(self) -> None:
        """Say to Python what to know before training."""
        if self.warning:
            warnings.warn(self.warning, UnstableWarning, stacklevel=3)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with its ``schema``; what few constants have only where they have it."""
        data = {k: v for k, v in asdict(self).items() if (k, v) not in OF_A_BASE.items()}
        for s in (s for part in data["parts"] for s in part["sublayers"]):
            for name in ("parallel", "layers", "placement"):
                if not s[name]:
                    del s[name]
        for part in (part for part in data["parts"] if part["uses"] == 1):
            del part["uses"]
        return {"schema": SCHEMA, **data}

    def to_json(self) -> str:
        """The JSON text of the constants file."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        write_text(Path(path), self.to_json())

    @classmethod
    def from_json(cls, text: str) -> Constants:
        """Read a constants file's text."""
        try:
            data = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise InputError("the constants are not valid JSON (damaged or truncated?)") from None
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: Any) -> Constants:
        """Read plain data; raises :class:`InputError` that names the first thing wrong."""
        if not isinstance(data, dict):
            raise InputError("the constants must be a JSON object")
        if data.get("schema") != SCHEMA:
            raise InputError(
                f"the constants have schema {shown(data.get('schema'))}; this version reads "
                f"{SCHEMA!r}"
            )
        return _made(cls, {k: v for k, v in data.items() if k != "schema"}, "file")

    @classmethod
    def load(cls, path: str | Path) -> Constants:
        return cls.from_json(read_text(Path(path), MAX_BYTES))


# ---- reading ----


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"the constants' {what} must be a JSON object, not {shown(value)}")
    return value


def _list(value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InputError(f"the constants' {name} must be a JSON list, not {shown(value)}")
    kind = {"parts": PartConstants, "sublayers": SublayerConstants}[name]
    return tuple(_made(kind, row, name.removesuffix("s")) for row in value)


def _parameters(value: Any, name: str) -> dict[str, ParameterConstants]:
    rows = _object(value, name).items()
    return {key: _made(ParameterConstants, row, "parameter") for key, row in rows}


def _made(kind: type[T], given: Any, what: str) -> T:
    """A dataclass of plain data, with the dataclasses that stand in its fields."""
    values = dict(_object(given, what))
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    readers: dict[str, Callable[[Any, str], Any]] = {
        "parts": _list,
        "sublayers": _list,
        "parameters": _parameters,
        "outer": _parameters,
        "architecture": lambda value, name: _made(Architecture, value, name),
    }
    for name in (name for name in readers if name in known):
        absent: Any = {} if readers[name] is _parameters else None
        values[name] = readers[name](values.get(name, absent), name)
    for name in values.keys() - known.keys():
        raise InputError(
            f"the constants' {what} has no {shown(name)}; valid are: {', '.join(known)}"
        )
    for name, f in known.items():
        if name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise InputError(f"the constants' {what} lacks {name!r}")
    return kind(**values)


# ---- what is valid ----


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST  # type: ignore[operator]


def _is_positive(value: object) -> bool:
    return _is_number(value) and value >= 1 / LARGEST  # type: ignore[operator]


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # half of a surrogate pair, which no file can hold
        return False


def _is_plain(value: object, levels: int = LEVELS) -> bool:
    """Whether JSON can hold it in the given number of levels."""
    if isinstance(value, dict):
        keys, values = list(value), list(value.values())
        return levels > 0 and all(map(_is_text, keys)) and _is_plain(values, levels)
    if isinstance(value, list | tuple):
        return levels > 0 and all(_is_plain(v, levels - 1) for v in value)
    return value is None or isinstance(value, bool) or _is_text(value) or _is_number(value)


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise InputError(f"the constants are invalid: {what}")


def _need_in_range(value: object, what: str) -> None:
    _need(_is_positive(value), f"{what} must be from {1 / LARGEST:.0e} to {LARGEST:.0e}")


def _rows(
    value: dict[str, T], label: str, what: str, valid: Collection[str]
) -> Iterable[tuple[str, T]]:
    """The items of an object whose names are all valid."""
    _need(isinstance(value, dict), f"{label} must be an object")
    for name in value:
        if name not in valid:
            raise unknown(what, name, valid)
    return value.items()


def _check(c: Constants) -> None:
    for label in ("stack", "placement", "norm", "optimizer", "update", "warning", "condition"):
        _need(_is_text(getattr(c, label)), f"{label} must be text")
    if c.form not in FORMS:
        raise unknown("form", c.form, FORMS)
    where = placement(c.placement)
    norm(c.norm)
    _need_in_range(c.eta, "eta")
    _need(
        isinstance(c.origin, dict) and _is_plain(c.origin),
        f"origin must be an object of plain data, at most {LEVELS} levels deep",
    )
    _need(isinstance(c.architecture, Architecture), "architecture must be an Architecture")
    alone = "the form 'weights' leaves the forward pass alone"
    for label in ("head_multiplier", "scores"):
        value = getattr(c, label)
        _need_in_range(value, label)
        _need(value == 1 or c.form == "forward", f"{alone}; {label} must be 1, not {value}")
    for name, own in _rows(c.outer, "outer", "outer parameter", OUTER):
        _check_numbers("outer", name, own)
    names = [p.name for p in stack(c.stack).parts]
    _need(
        isinstance(c.parts, tuple) and all(isinstance(p, PartConstants) for p in c.parts),
        "parts must be a tuple of PartConstants",
    )
    _need([p.name for p in c.parts] == names, f"the parts of {c.stack!r} are {' and '.join(names)}")
    for index, part in enumerate(c.parts):
        _check_part(part)
        for s, following in pairwise(part.sublayers):
            _need(
                not following.parallel or not where.normalises_sum or s.alpha == following.alpha,
                f"{part.name}: the branches of one residual sum have one alpha, not {s.alpha} and "
                f"{following.alpha}",
            )
        for s in part.sublayers:
            where = c.placed(s)
            _need(
                index > 0 or not sublayer(s.kind).reads_memory,
                f"{part.name}: {s.kind!r} has no other part to attend to",
            )
            label, norms = f"{part.name}: norm_epsilon", f"norm of {where.name!r}"
            for place, times in _rows(s.norm_epsilon, label, norms, where.places):
                what = f"{part.name}: the norm_epsilon of {place!r}"
                _need(_is_positive(times), f"{what} must be positive")
            _need(
                s.alpha == 1 or c.form == "forward",
                f"{part.name}: {alone}; alpha must be 1, not {s.alpha}",
            )
            _need(
                s.alpha == 1 or "alpha" in where.expression.names,
                f"{part.name}: the placement {where.name!r} has no residual multiplier; alpha "
                f"must be 1, not {s.alpha}",
            )


def _check_part(p: PartConstants) -> None:
    _need(type(p.layers) is int and 1 <= p.layers <= 10**6, f"{p.name}: layers must be 1 or more")
    _need(
        type(p.uses) is int and p.uses >= 1 and p.layers % p.uses == 0,
        f"{p.name}: {p.layers} layers cannot be layers that are used {shown(p.uses)} times each",
    )
    _need(type(p.causal) is bool, f"{p.name}: causal must be a boolean")
    _need(
        isinstance(p.sublayers, tuple) and 1 <= len(p.sublayers) <= 64,
        f"{p.name}: a layer needs 1 to 64 sublayers",
    )
    for s in p.sublayers:
        _check_sublayer(p.name, s)
    _need(not p.sublayers[0].parallel, f"{p.name}: the first sublayer has no sum to join")
    for s in p.sublayers:
        _need(
            type(s.layers) is int and 0 <= s.layers <= p.layers,
            f"{p.name}: the layers of {s.kind!r} must be from 0, for all, to {p.layers}",
        )
    roles = [r.value for r in Role]
    for role, m in _rows(p.multipliers, f"{p.name}: multipliers", "role", roles):
        _need(_is_number(m) and m >= 0, f"{p.name}: the multiplier of {role!r} must be ≥ 0")


def _check_sublayer(part: str, s: SublayerConstants) -> None:
    _need(isinstance(s, SublayerConstants), f"{part}: sublayers are SublayerConstants")
    _need(type(s.parallel) is bool, f"{part}: parallel must be a boolean")
    if not isinstance(s.kind, str) or sublayer(s.kind).name != s.kind:
        raise unknown("sublayer", s.kind, sublayers())
    for value in (s.alpha, s.beta, s.rate):
        _need_in_range(value, f"{part}: alpha, beta and rate of {s.kind!r}")
    matrices = [m.name for m in sublayer(s.kind).matrices]
    for name, gain in _rows(s.gains, f"{part}: gains", f"matrix of {s.kind}", matrices):
        _need(_is_positive(gain), f"{part}: the gain of {name!r} must be positive")
    own_names = [p.name for p in sublayer(s.kind).parameters]
    known = [*own_names, *_OF_NORMS.values(), RESIDUAL_GAIN, STREAM_GAIN]
    for name, own in _rows(s.parameters, f"{part}: parameters", f"parameter of {s.kind}", known):
        _check_numbers(part, name, own)
        _need(
            name not in matrices or own.gain == s.gain(name),
            f"{part}: the gain of {name!r} is said twice, {own.gain!r} and {s.gain(name)!r}",
        )


def _check_numbers(where: str, name: str, own: ParameterConstants) -> None:
    _need(isinstance(own, ParameterConstants), f"{where}: parameters are ParameterConstants")
    for knob in KNOBS:
        value = getattr(own, knob)
        _need(
            _is_number(value) and value >= 0,
            f"{where}: the {knob} of {name!r} must be from 0 to {LARGEST:.0e}",
        )
    _need(
        isinstance(own.formulas, dict) and _is_plain(own.formulas, 1),
        f"{where}: the formulas of {name!r} must be an object of texts",
    )


def _check_architecture(a: Architecture) -> None:
    for label in ("width", "heads", "vocab"):
        value = getattr(a, label)
        _need(type(value) is int and 1 <= value <= 2**20, f"{label} must be from 1 to 2**20")
    _need(a.width % a.heads == 0, f"width {a.width} is not a multiple of heads {a.heads}")
    if a.kv_heads is not None:
        _need(type(a.kv_heads) is int and a.kv_heads > 0, "kv_heads must be a positive integer")
        _need(a.heads % a.kv_heads == 0, f"heads {a.heads} is no multiple of {shown(a.kv_heads)}")
    _need(_is_positive(a.ffn_ratio) and a.ffn_ratio <= 1024, "ffn_ratio must be positive")
    _need(a.ffn_ratio * a.width >= 1, "the hidden width is below 1")
    _need(_is_number(a.dropout) and 0 <= a.dropout < 1, "dropout must be in [0, 1)")
    _need(a.residual_gain is None or _is_number(a.residual_gain), "residual_gain must be a number")
    if a.activation not in ACTIVATIONS:
        raise unknown("activation", a.activation, ACTIVATIONS)
    for label in ("bias", "tied_head", "head_bias"):
        _need(type(getattr(a, label)) is bool, f"{label} must be a boolean")
