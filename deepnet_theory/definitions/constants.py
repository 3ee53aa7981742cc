"""The exported constants: everything a builder needs, and where each number came from.

Standard library only; ``runtime`` reads these without SymPy. Reading is strict: a damaged,
truncated, hostile or unknown-version file gives one :class:`InputError`.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.files import read_text, write_text
from deepnet_theory.definitions.outcome import InputError, UnstableWarning, shown, unknown
from deepnet_theory.definitions.placement import Placement, placement
from deepnet_theory.definitions.record import (
    ACTIVATIONS,
    COUNT,
    LARGEST,
    NOT_NEGATIVE,
    OPTIONAL,
    POSITIVE,
    Option,
    Within,
    read,
    require,
)
from deepnet_theory.definitions.rule import KNOBS, ParameterConstants, number, numbers
from deepnet_theory.definitions.selection import ALIGNMENTS, Selection, described_layer, stack
from deepnet_theory.definitions.sublayer import MATRICES, SUBLAYERS, Matrix, Role, norm, sublayer

if TYPE_CHECKING:
    from deepnet_theory.definitions.rule import Rule

FORMS = FORWARD, WEIGHTS = "forward", "weights"
SCHEMA = "deepnet-theory/constants/1"
MAX_BYTES = 1_000_000  # a constants file is a few kilobytes

_OF_NORMS = {Role.NORM_GAIN: "norm_gain", Role.NORM_BIAS: "norm_bias"}
# of no sublayer; "token_embedding" is that of a model whose embedding has no multiplier
OUTER = ("embedding", "token_embedding", "head", "head_bias", *_OF_NORMS.values())
OF_A_BASE: dict[str, Any] = {"head_multiplier": 1.0, "scores": 1.0, "outer": {}, "budget": None}
_INVALID = "the constants are invalid"
Address: TypeAlias = tuple[str, int | None, str]  # part, index in its layer or None; parameter
Positive: TypeAlias = Annotated[float, POSITIVE]
Layers: TypeAlias = Annotated[int, Within(1, 10**6)]
NotNegative: TypeAlias = Annotated[float, NOT_NEGATIVE]


@dataclass(frozen=True)
class SublayerConstants:
    """α and β of one kind of sublayer of a part's layer.

    ``gains`` are those of single matrices by name, in place of β; ``rate`` is κ, the
    learning-rate multiplier of the scaled matrices. ``parameters`` has for each kind of
    parameter by name all that it starts and steps with, the rate included. ``norm_epsilon`` is what
    the ε of a norm is multiplied by, for each of :attr:`Placement.places` where it is not 1.
    The branch of a ``parallel`` one joins the residual sum of the one before it.
    """

    kind: str
    alpha: Positive
    beta: Positive
    rate: Positive = 1.0
    gains: dict[str, Positive] = field(default_factory=dict)
    parameters: dict[str, ParameterConstants] = field(default_factory=dict)
    norm_epsilon: dict[str, Positive] = field(default_factory=dict)
    parallel: bool = field(default=False, metadata=OPTIONAL)

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
    (:class:`~deepnet_theory.definitions.sublayer.Role` values), for parameters that their sublayer
    says nothing of; a role that is absent takes 1.
    """

    name: str
    layers: Layers
    causal: bool
    sublayers: tuple[SublayerConstants, ...]
    multipliers: dict[str, NotNegative] = field(default_factory=dict)

    def described(self, between: str = ", ") -> str:
        """The layer by its kinds, a plus between the branches of one sum."""
        return described_layer(((s.kind, s.parallel) for s in self.sublayers), between)


@dataclass(frozen=True)
class Architecture:
    """Sizes that the rule does not depend on."""

    width: Annotated[int, Option("D", "Model width"), COUNT] = 512
    heads: Annotated[int, Option("H", "Attention heads"), COUNT] = 8
    kv_heads: Annotated[int | None, Option("H", "Key and value heads; as many as heads"), COUNT] = (
        None
    )
    ffn_ratio: Annotated[
        float, Option("R", "Hidden width over width"), Within(1 / LARGEST, 1024)
    ] = 4.0
    vocab: Annotated[int, Option("V", "Vocabulary, of bytes"), COUNT] = 256
    activation: Annotated[str, Option("NAME", "relu, gelu or silu", ACTIVATIONS)] = "relu"
    bias: Annotated[bool, Option("", "Bias vectors; with them")] = True
    tied_head: Annotated[bool, Option("", "Share embedding and output head")] = False
    head_bias: Annotated[
        bool, Option("", "A bias on the output head, which train starts at the log-unigram")
    ] = False
    dropout: Annotated[float, Option("P", "Dropout"), Within(0, 1)] = 0.0

    def __post_init__(self) -> None:
        require(self, Architecture, _INVALID)
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        kv_heads = self.kv_heads or self.heads
        _need(self.width % self.heads == 0, f"width {self.width} is not a multiple of heads "
              f"{self.heads}")  # fmt: skip
        _need(self.heads % kv_heads == 0, f"heads {self.heads} is no multiple of {kv_heads}")
        _need(self.ffn_ratio * self.width >= 1, "the hidden width is below 1")
        _need(self.dropout < 1, "dropout must be below 1")

    @property
    def hidden_width(self) -> int:
        """The width between the matrices of a feed-forward branch."""
        return round(self.ffn_ratio * self.width)

    @property
    def kv_width(self) -> int:
        """The width of keys and values: grouped heads are narrower than the model."""
        return (self.kv_heads or self.heads) * (self.width // self.heads)

    def fans(self, m: Matrix) -> tuple[int, int]:
        """The fan-in and the fan-out of a branch's matrix."""
        sizes = {"d": self.width, "hidden": self.hidden_width}
        sizes |= dict.fromkeys(("key", "value"), self.kv_width)
        return sizes[m.fan_in], sizes.get(m.name, sizes[m.fan_out])


@dataclass(frozen=True)
class Base:
    """The smaller model that constants are relative to: its width, heads, and depth by symbol.

    ``depth`` is None where the constants are relative in the width alone. ``shape`` has the other
    sizes that differ, such as ``{"experts": 8}``.
    """

    width: Annotated[int, COUNT]
    heads: Annotated[int, COUNT]
    depth: dict[str, Layers] | None
    alignment: str
    shape: dict[str, Annotated[int, COUNT]] = field(default_factory=dict, metadata=OPTIONAL)


@dataclass(frozen=True)
class Budget:
    """The batch and the steps of a run, each with that of the run that was tuned."""

    batch: Annotated[
        float | None, Option("B", "Batch; rates, epsilon and decay follow it"), POSITIVE
    ] = None
    base_batch: Annotated[float | None, Option("B0", "Batch of the tuned run"), POSITIVE] = None
    horizon: Annotated[float | None, Option("T", "Steps; decay follows them"), POSITIVE] = None
    base_horizon: Annotated[float | None, Option("T0", "Steps of the tuned run"), POSITIVE] = None
    b_noise: Annotated[
        float | None, Option("B", "B_noise, which `measure` prints; a larger batch warns"), POSITIVE
    ] = None

    def __post_init__(self) -> None:
        require(self, Budget, "the budget")
        for name in ("batch", "horizon"):
            one, base = getattr(self, name), getattr(self, f"base_{name}")
            if (one is None) != (base is None):
                raise InputError(
                    f"{name} {one} was given with the base's {name} {base}: give both or none"
                )

    @property
    def times(self) -> float:
        """The batch over the base's."""
        return (self.batch or 1.0) / (self.base_batch or 1.0)

    @property
    def steps(self) -> float:
        """The steps over the base's; the samples are as many where nothing is said of them."""
        return (
            self.horizon / self.base_horizon
            if self.horizon and self.base_horizon
            else 1 / self.times
        )


@dataclass(frozen=True, repr=False)
class Constants(Displayed):
    """The constants of one model.

    ``form`` says where α is: in the ``forward`` pass, or in the ``weights``, the initial size and
    the multipliers of each branch's last matrix, every ``alpha`` being 1.
    ``warning`` is what to know before training, ``condition`` what training needs beside the
    constants; both are empty where there is nothing.
    What is relative to a smaller model, the base: ``head_multiplier`` multiplies what enters the
    head, ``scores`` those of attention beside 1/√k, k the head size, and ``outer`` is what
    embedding, head, ``norm_gain`` and ``norm_bias`` of the final norm start and step with.
    ``budget`` is the batch and the number of steps that the multipliers are for, None where they
    are those of the run that was tuned.
    ``origin`` records where the numbers came from: the rule's formulas in N and M, the
    selection, the package's version, and the ``base``. It is information for people; only
    ``base`` and ``select`` are read again, by :attr:`base` and :attr:`selected`.
    """

    schema = SCHEMA

    stack: str
    placement: str
    norm: str
    parts: tuple[PartConstants, ...]
    architecture: Architecture = field(default_factory=Architecture)
    optimizer: str = "custom"
    update: str = ""
    eta: Positive = 1.0
    form: str = "forward"
    warning: str = ""
    condition: str = ""
    head_multiplier: Positive = field(default=1.0, metadata=OPTIONAL)
    scores: Positive = field(default=1.0, metadata=OPTIONAL)
    outer: dict[str, ParameterConstants] = field(default_factory=dict, metadata=OPTIONAL)
    budget: Budget | None = field(default=None, metadata=OPTIONAL)
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
        parameters: Mapping[tuple[str, str], dict[str, ParameterConstants]] | None = None,
        **more: Any,
    ) -> Constants:
        """The constants of ``selection``'s stack under ``rule`` at a depth such as ``{"N": 8}``.

        ``parameters`` are those of parts and sublayers, ``more`` other fields. Raises
        :class:`InputError` where the rule has no positive, finite value at that depth, or says
        nothing of a sublayer.
        """
        parts = []
        for part in selection.the_stack.parts:
            layers, rows = depth[part.depth], []
            for s, parallel in zip(part.layer, part.parallel, strict=True):
                entry, matrices = rule.entry(part.name, s.name), {m.name for m in s.matrices}
                # an entry may be of all kinds, and have gains of other kinds' matrices
                gains = numbers({m: entry.gains[m] for m in matrices & entry.gains.keys()}, **depth)
                own = (parameters or {}).get((part.name, s.name), {})
                rate, epsilon = number(entry.rate, **depth), numbers(entry.norm_epsilon, **depth)
                alpha, beta = entry.at(**depth)
                rows.append(
                    SublayerConstants(s.name, alpha, beta, rate, gains, own, epsilon, parallel)
                )
            parts.append(PartConstants(part.name, layers, part.causal, tuple(rows)))
        by, eta = selection.the_optimizer, rule.eta_at(**depth)
        where = selection.stack, selection.placement, selection.norm
        return cls(*where, tuple(parts), architecture, by.name, by.update, eta, **more)

    def parameter(
        self, part: str, sublayer: int | None, name: str, role: Role
    ) -> ParameterConstants:
        """What a kind of parameter starts and steps with, η's factor besides.

        ``sublayer`` is the index within a layer, None for embedding, head and final norm. What
        nothing is said of takes the multipliers of its role, and no weight decay where it is a
        vector.
        """
        owner = next(p for p in self.parts if p.name == part)
        if not name.startswith("inner_"):  # a norm around the branch
            name = _OF_NORMS.get(role, name)
        rate, gain = owner.multipliers.get(role.value, 1.0), 1.0
        if sublayer is None:
            if name in self.outer:
                return self.outer[name]
        else:
            s = owner.sublayers[sublayer]
            if name in s.parameters:
                return s.parameters[name]
            rate *= s.rate if role is Role.SCALED else 1.0
            gain = s.gain(name) if role in MATRICES else 1.0
        return ParameterConstants(gain, rate, weight_decay=float(role in MATRICES))

    @property
    def rows(self) -> dict[Address, ParameterConstants]:
        """What is said of single parameters; those outside the layers are of the last part."""
        outside = {(self.parts[-1].name, None, name): row for name, row in self.outer.items()}
        return outside | {
            (part.name, index, name): row
            for part in self.parts
            for index, s in enumerate(part.sublayers)
            for name, row in s.parameters.items()
        }

    @property
    def numbers(self) -> dict[tuple[str | int | None, ...], float]:
        """All that a model is multiplied by, starts and steps with, by place and name."""
        found: dict[tuple[str | int | None, ...], float] = {("eta",): self.eta}
        found |= {("scores",): self.scores, ("head_multiplier",): self.head_multiplier}
        for part in self.parts:
            for index, s in enumerate(part.sublayers):
                at = part.name, index, s.kind
                found |= {(*at, "alpha"): s.alpha, (*at, "beta"): s.beta, (*at, "rate"): s.rate}
                found |= {(*at, "norm_epsilon", norm): e for norm, e in s.norm_epsilon.items()}
        rows = ((at, vars(row)) for at, row in self.rows.items())
        return found | {(*at, knob): row[knob] for at, row in rows for knob in KNOBS}

    def is_alike(self, other: Constants, but: Collection[Address] = ()) -> bool:
        """Whether both have the same numbers, ``but`` for some rows, to what a machine rounds."""
        one, two = (
            {at: number for at, number in c.numbers.items() if at[:-1] not in but}
            for c in (self, other)
        )
        return one.keys() == two.keys() and all(
            math.isclose(number, two[at], rel_tol=1e-9) for at, number in one.items()
        )

    def with_rows(self, rows: Mapping[Address, ParameterConstants], **more: Any) -> Constants:
        """The constants with these rows besides, and ``more`` fields; gains are those of rows."""

        def own(part: str, index: int, s: SublayerConstants) -> SublayerConstants:
            mine = {name: row for (*at, name), row in rows.items() if at == [part, index]}
            starts = ((m, mine.get(m.name)) for m in sublayer(s.kind).matrices)
            gains = {m.name: row.gain for m, row in starts if row and row.gain != s.gain(m.name)}
            return replace(s, gains=s.gains | gains, parameters=s.parameters | mine)

        outside = {name: row for (_, index, name), row in rows.items() if index is None}
        return self.mapped(own, outer=self.outer | outside, **more)

    def mapped(
        self, change: Callable[[str, int, SublayerConstants], SublayerConstants], **more: Any
    ) -> Constants:
        """The constants with each sublayer changed, by its part and its index within a layer."""
        parts = (
            replace(p, sublayers=tuple(change(p.name, i, s) for i, s in enumerate(p.sublayers)))
            for p in self.parts
        )
        return replace(self, parts=tuple(parts), **more)

    @property
    def base(self) -> Base | None:
        """The smaller model that the constants are relative to, as ``origin`` records it."""
        base = self.origin.get("base")
        return None if base is None else read(Base, base, "the base of the constants")

    @property
    def selected(self) -> Selection | None:
        """The selection that the constants were derived for, as ``origin`` records it.

        Raises :class:`InputError` where what is recorded is no selection.
        """
        select = self.origin.get("select")
        return None if select is None else read(Selection, select, "the selection of the constants")

    @property
    def the_placement(self) -> Placement:
        """The residual equation of every sublayer."""
        return placement(self.placement)

    def warn(self) -> None:
        """Say to Python what to know before training."""
        if self.warning:
            warnings.warn(self.warning, UnstableWarning, stacklevel=3)

    def to_json(self) -> str:
        """The JSON text of the constants file."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        write_text(Path(path), self.to_json())

    @classmethod
    def from_json(cls, text: str) -> Constants:
        """Read a constants file's text."""
        try:
            data = json.loads(text, parse_constant=_no_json)
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
        rest = {name: value for name, value in data.items() if name != "schema"}
        sizes = rest.get("architecture")
        if isinstance(sizes, dict) and sizes.get("residual_gain", "") is None:  # in older files
            rest["architecture"] = {n: v for n, v in sizes.items() if n != "residual_gain"}
        made: Constants = read(cls, {"architecture": None, **rest}, "the constants")
        return made

    @classmethod
    def load(cls, path: str | Path) -> Constants:
        return cls.from_json(read_text(Path(path), MAX_BYTES))


def _no_json(constant: str) -> None:
    raise ValueError(constant)  # NaN and infinity, which JSON lacks


# ---- what is valid, beside what each field says of itself ----


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise InputError(f"{_INVALID}: {what}")


def _need_names(names: Collection[str], what: str, valid: Collection[str]) -> None:
    for name in names:
        if name not in valid:
            raise unknown(what, name, valid)


def _check(c: Constants) -> None:
    require(c, Constants, _INVALID)
    _need_names([c.form], "form", FORMS)
    _need_names(c.outer, "outer parameter", OUTER)
    _, where = norm(c.norm), placement(c.placement)
    names = [p.name for p in stack(c.stack).parts]
    _need([p.name for p in c.parts] == names, f"the parts of {c.stack!r} are {' and '.join(names)}")
    if (base := c.base) is not None:
        require(base, Base, f"{_INVALID}: origin: base")
        _need_names([base.alignment], "alignment of the base", ALIGNMENTS)
    forward = {"head_multiplier": c.head_multiplier, "scores": c.scores}
    for part in c.parts:
        _need(1 <= len(part.sublayers) <= 64, f"{part.name}: a layer needs 1 to 64 sublayers")
        for s in part.sublayers:
            _check_sublayer(c, part, s)
            forward |= {f"{part.name}: alpha": s.alpha} if s.alpha != 1 else {}
        _need(not part.sublayers[0].parallel, f"{part.name}: the first sublayer has no sum to join")
        for s, following in pairwise(part.sublayers):
            _need(
                not following.parallel or not where.normalises_sum or s.alpha == following.alpha,
                f"{part.name}: the branches of one residual sum have one alpha, not {s.alpha} and "
                f"{following.alpha}",
            )
        _need_names(part.multipliers, "role", [role.value for role in Role])
    for what, value in forward.items():
        _need(
            value == 1 or c.form == "forward",
            f"the form 'weights' leaves the forward pass alone; {what} must be 1, not {value}",
        )


def _check_sublayer(c: Constants, part: PartConstants, s: SublayerConstants) -> None:
    spec = sublayer(s.kind)
    if spec.name != s.kind:
        raise unknown("sublayer", s.kind, SUBLAYERS)
    where, matrices = c.the_placement, [m.name for m in spec.matrices]
    _need(
        part is not c.parts[0] or not spec.reads_memory,
        f"{part.name}: {s.kind!r} has no other part to attend to",
    )
    _need(
        s.alpha == 1 or "alpha" in where.expression.names,
        f"{part.name}: the placement {where.name!r} has no residual multiplier; alpha must be 1, "
        f"not {s.alpha}",
    )
    _need_names(s.gains, f"matrix of {s.kind}", matrices)
    _need_names(s.norm_epsilon, f"norm of {where.name!r}", where.places)
    known = [*(p.name for p in spec.parameters), *_OF_NORMS.values()]
    _need_names(s.parameters, f"parameter of {s.kind}", known)
    for name in set(matrices) & s.parameters.keys():
        gain = s.parameters[name].gain
        _need(
            gain == s.gain(name),
            f"{part.name}: the gain of {name!r} is said twice, {gain!r} and {s.gain(name)!r}",
        )
