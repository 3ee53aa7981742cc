"""The exported constants: everything a builder needs, and where each number came from.

Standard library only; ``runtime`` reads these without SymPy. Reading is strict: a damaged,
truncated, hostile or unknown-version file gives one :class:`InputError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.files import read_text, write_text

if TYPE_CHECKING:
    from deepnet_theory.spec.rule import Rule
    from deepnet_theory.spec.selection import Selection

SCHEMA = "deepnet-theory/constants/1"
MAX_BYTES = 1_000_000  # a constants file is a few kilobytes


@dataclass(frozen=True)
class SublayerConstants:
    """α and β of one kind of sublayer of a part's layer."""

    kind: str
    alpha: float
    beta: float


@dataclass(frozen=True)
class PartConstants:
    """One part of the stack: its number of layers, and its layer's sublayers in order.

    ``multipliers`` are the derived learning-rate multipliers by role
    (:class:`~deepnet_theory.spec.sublayer.Role` values); a role that is absent takes 1.
    """

    name: str
    layers: int
    causal: bool
    sublayers: tuple[SublayerConstants, ...]
    multipliers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Architecture:
    """Sizes that the rule does not depend on."""

    width: int = 512
    heads: int = 8
    kv_heads: int | None = None  # None: as many as heads
    ffn_ratio: float = 4.0
    vocab: int = 256
    activation: str = "relu"
    bias: bool = True
    tied_head: bool = False
    dropout: float = 0.0
    residual_gain: float | None = None  # initial value of a learnable scalar on every branch


@dataclass(frozen=True)
class Constants:
    """The constants of one model.

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
        multipliers: Mapping[str, dict[str, float]] | None = None,
        origin: dict[str, Any] | None = None,
    ) -> Constants:
        """The constants of ``selection``'s stack under ``rule`` at a depth such as ``{"N": 8}``.

        ``multipliers`` are the learning-rate multipliers by part and role. Raises
        :class:`InputError` where the rule has no positive, finite value at that depth, or says
        nothing of a sublayer.
        """
        parts = []
        for part in selection.the_stack.parts:
            values = tuple(
                SublayerConstants(s.name, *rule.entry(part.name, s.name).at(**depth))
                for s in part.layer
            )
            rates = (multipliers or {}).get(part.name, {})
            parts.append(PartConstants(part.name, depth[part.depth], part.causal, values, rates))
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
            origin=origin or {},
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data with its ``schema``."""
        return {"schema": SCHEMA, **asdict(self)}

    def to_json(self) -> str:
        """The JSON text of the constants file."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the file atomically; nothing half-written is ever left."""
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
                f"the constants have schema {data.get('schema')!r}; this version reads {SCHEMA!r}"
            )
        body = {k: v for k, v in data.items() if k != "schema"}
        try:
            parts = tuple(
                PartConstants(
                    **{
                        **_mapping(p, "part"),
                        "sublayers": tuple(
                            SublayerConstants(**_mapping(s, "sublayer"))
                            for s in _mapping(p, "part")["sublayers"]
                        ),
                    }
                )
                for p in body.pop("parts")
            )
            architecture = Architecture(**_mapping(body.pop("architecture"), "architecture"))
            return cls(parts=parts, architecture=architecture, **body)
        except KeyError as missing:
            raise InputError(f"the constants lack {missing.args[0]!r}") from None
        except TypeError as wrong:
            raise InputError(f"the constants do not fit their schema: {wrong}") from None

    @classmethod
    def load(cls, path: str | Path) -> Constants:
        """Read a constants file."""
        return cls.from_json(read_text(Path(path), MAX_BYTES))


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"the constants' {what} must be a JSON object, not {value!r:.60}")
    return value


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _check(c: Constants) -> None:
    def need(condition: bool, what: str) -> None:
        if not condition:
            raise InputError(f"the constants are invalid: {what}")

    for label in ("stack", "placement", "norm", "optimizer", "update"):
        need(isinstance(getattr(c, label), str), f"{label} must be text")
    need(_is_number(c.eta) and c.eta > 0, "eta must be positive")
    need(isinstance(c.origin, dict), "origin must be an object")
    need(1 <= len(c.parts) <= 2, "there must be one or two parts")
    a = c.architecture
    for label in ("width", "heads", "vocab"):
        value = getattr(a, label)
        need(type(value) is int and 1 <= value <= 2**20, f"{label} must be a positive integer")
    need(a.width % a.heads == 0, f"width {a.width} is not a multiple of heads {a.heads}")
    if a.kv_heads is not None:
        need(type(a.kv_heads) is int and a.kv_heads > 0, "kv_heads must be a positive integer")
        need(a.heads % a.kv_heads == 0, f"heads {a.heads} is not a multiple of {a.kv_heads}")
    need(_is_number(a.ffn_ratio) and 0 < a.ffn_ratio <= 1024, "ffn_ratio must be positive")
    need(a.ffn_ratio * a.width >= 1, "the hidden width is below 1")
    need(_is_number(a.dropout) and 0 <= a.dropout < 1, "dropout must be in [0, 1)")
    need(a.residual_gain is None or _is_number(a.residual_gain), "residual_gain must be a number")
    need(isinstance(a.activation, str), "activation must be text")
    need(type(a.bias) is bool and type(a.tied_head) is bool, "bias and tied_head must be booleans")
    for p in c.parts:
        need(isinstance(p.name, str), "a part's name must be text")
        need(
            type(p.layers) is int and 1 <= p.layers <= 10**6, f"{p.name}: layers must be 1 or more"
        )
        need(type(p.causal) is bool, f"{p.name}: causal must be a boolean")
        need(1 <= len(p.sublayers) <= 64, f"{p.name}: a layer needs 1 to 64 sublayers")
        for s in p.sublayers:
            need(isinstance(s.kind, str), f"{p.name}: a sublayer's kind must be text")
            need(
                _is_number(s.alpha) and _is_number(s.beta) and s.alpha > 0 and s.beta > 0,
                f"{p.name}: alpha and beta of {s.kind!r} must be positive and finite",
            )
        need(isinstance(p.multipliers, dict), f"{p.name}: multipliers must be an object")
        for role, m in p.multipliers.items():
            need(_is_number(m) and m >= 0, f"{p.name}: the multiplier of {role!r} must be ≥ 0")
