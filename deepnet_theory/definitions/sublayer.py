"""A residual sublayer: its branch as a formula, its parameters with their roles; its norm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property

from deepnet_theory.definitions.discovery import HERE, Folder, choose, declared
from deepnet_theory.definitions.expression import (
    Call,
    Expression,
    Grammar,
    Name,
    Node,
    Operation,
    children,
    parts,
)
from deepnet_theory.definitions.outcome import InputError, Refusal


class Role(StrEnum):
    """What the initialisation and the learning rate do with a parameter.

    The first four are matrices, the others vectors.
    """

    SCALED = "scaled"
    UNSCALED = "unscaled"
    EMBEDDING = "embedding"
    HEAD = "head"
    NORM_GAIN = "norm-gain"
    NORM_BIAS = "norm-bias"
    OUTPUT_BIAS = "output-bias"  # of the branch's last map
    INNER_BIAS = "inner-bias"  # of a scaled map before the last one
    QUERY_BIAS = "query-bias"
    KEY_BIAS = "key-bias"
    HEAD_BIAS = "head-bias"


ROUTER = "router"
MATRICES = frozenset({Role.SCALED, Role.UNSCALED, Role.EMBEDDING, Role.HEAD})
STEPPED = {  # of the stack itself, by the name of what is stepped
    "matrices": frozenset({Role.SCALED, Role.UNSCALED}),
    "all": frozenset(Role) - {Role.EMBEDDING, Role.HEAD, Role.HEAD_BIAS},
}


@dataclass(frozen=True)
class Matrix:
    """A weight matrix; its fans are in units of the width d (``"d"``) or the hidden width."""

    name: str
    role: Role
    fan_in: str = "d"
    fan_out: str = "d"


@dataclass(frozen=True)
class Vector:
    """A vector of a branch: the gain of a norm, one at initialisation, or a bias, zero."""

    name: str
    role: Role
    size: str = "d"


_FUNCTIONS = {**dict.fromkeys(("phi", "softmax", "T"), (1, 1)), "norm": (1, 3), "hadamard": (2, 2)}
_VECTORS = {
    "query_bias": Role.QUERY_BIAS,
    "key_bias": Role.KEY_BIAS,
    "inner_gain": Role.NORM_GAIN,
    "inner_bias": Role.NORM_BIAS,
}


@dataclass(frozen=True)
class Sublayer:
    r"""A residual branch :math:`G(x)`.

    ``branch`` is a formula in ``x`` (and ``memory`` for cross-attention), the names of its
    matrices and vectors, the functions ``phi`` (the activation, positively homogeneous of
    degree 1), ``softmax`` (over the last axis), ``norm`` (of every token, with the names of its
    gain and bias where they are parameters), ``T`` (transpose) and ``hadamard``. Products do not
    commute. Rows are tokens. A name that ends in ``_bias`` or ``_gain`` is a vector. The width
    between the first matrix and the last is ``hidden`` where there is an activation, else d.

    Of ``experts`` alike a router picks ``chosen`` for every token: the branch is the sum of these,
    each weighed by its gate, and ``branch`` is one of them with its gate.
    """

    name: str = ""
    branch: str = ""
    summary: str = ""
    source: str = ""
    chosen: int = 1
    experts: int = 1

    @cached_property
    def expression(self) -> Expression:
        words = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", self.branch))
        names = tuple(word for word in words if word not in {*_FUNCTIONS, "x", "memory"})
        return Grammar("a residual branch", ("x", "memory", *names), _FUNCTIONS).parse(self.branch)

    @property
    def _named(self) -> tuple[list[str], list[str]]:
        """The names of its matrices and of its vectors, in the order of the branch."""
        names = self.expression.grammar.symbols[2:]
        vectors = [name for name in names if name.endswith(("_bias", "_gain"))]
        return [name for name in names if name not in vectors], vectors

    @property
    def last(self) -> str:
        """The matrix that the branch names last, a router aside."""
        return [name for name in self._named[0] if name != ROUTER][-1]

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """The matrices with what the formula says of them.

        One is unscaled where a softmax bounds or a norm takes back what it gives, wherever it
        occurs: at gain 1 that norm's ε stays as small beside what it divides as in a shallow model.
        """
        scaled = _outside(self.expression.root, "softmax", "norm")
        first = {
            node.right.name
            for node in parts(self.expression.root)
            if isinstance(node, Operation) and isinstance(node.right, Name)
            if _outside(node.left) <= {"x", "memory"}
        }
        inner = "hidden" if "phi" in self.expression.functions else "d"
        ends = {self.last: "d", **({ROUTER: "experts"} if self.experts > 1 else {})}
        return tuple(
            Matrix(
                name,
                Role.SCALED if name in scaled else Role.UNSCALED,
                "d" if name in first else inner,
                ends.get(name, inner),
            )
            for name in self._named[0]
        )

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """The vectors, each as long as the output of what it is behind."""
        sizes = {m.name: m.fan_out for m in self.matrices}
        inner = next(m.fan_in for m in self.matrices if m.name == self.last)
        roles = {**_VECTORS, f"{self.last}_bias": Role.OUTPUT_BIAS}
        return tuple(
            Vector(name, roles.get(name, Role.INNER_BIAS), sizes.get(name.partition("_")[0], inner))
            for name in self._named[1]
        )

    @property
    def reads_memory(self) -> bool:
        """Whether the branch attends to another part of the stack (cross-attention)."""
        return "memory" in self.expression.names

    @cached_property
    def last_map(self) -> tuple[str, ...]:
        """The matrix that the branch applies last, and the bias behind it where it has one.

        Raises :class:`Refusal` where the branch does not end in a matrix.
        """
        node = self.expression.root
        if self.experts > 1 and isinstance(node, Call):
            node, _ = node.arguments  # before the gate
        behind: tuple[str, ...] = ()
        match node:
            case Operation("+", left, Name(bias)):
                node, behind = left, (bias,)
        match node:
            case Operation("*", _, Name(matrix)) if matrix in {m.name for m in self.matrices}:
                return (matrix, *behind)
        raise Refusal(f"the branch of {self.name!r} does not end in a matrix: {self.branch}")

    @cached_property
    def normed(self) -> frozenset[str]:
        """The matrices whose output a norm without parameters takes."""
        names = set()
        for node in parts(self.expression.root):
            match node:
                case Call("norm", (Operation("*", _, Name(matrix)),)):
                    names.add(matrix)
        return frozenset(names)

    @property
    def inner(self) -> Vector | None:
        """The gain of a norm within the branch, before the last map; else None."""
        return next((v for v in self.vectors if v.role is Role.NORM_GAIN), None)

    @cached_property
    def normed_inside(self) -> bool:
        """Whether a norm within the branch takes back the size of what a matrix gives."""
        sized = {m.name for m in self.matrices} - {"query", "key"}  # whose norms bound a softmax
        return not sized <= _outside(self.expression.root, "norm")

    @property
    def parameters(self) -> tuple[Matrix | Vector, ...]:
        return (*self.matrices, *self.vectors)

    @property
    def scaled(self) -> tuple[Matrix, ...]:
        """The matrices that the gain β reaches; their number is m_s."""
        return tuple(m for m in self.matrices if m.role is Role.SCALED)

    @property
    def unscaled(self) -> tuple[Matrix, ...]:
        """The matrices of gain 1 (query, key)."""
        return tuple(m for m in self.matrices if m.role is Role.UNSCALED)


def _outside(node: Node, *functions: str) -> set[str]:
    """The names that a formula has outside every call of these functions."""
    if isinstance(node, Name):
        return {node.name}
    if isinstance(node, Call) and node.function in functions:
        return set()
    return set[str]().union(*(_outside(child, *functions) for child in children(node)))


_PUBLIC = {"up": "fc1", "down": "fc2"}  # of a gated feed-forward, as a plain one calls them


def role_name(parameter: str) -> str:
    """The public name of a sublayer's parameter, ``fc1`` or ``fc1-bias``."""
    name, _, kind = parameter.partition("_")
    name = _PUBLIC.get(name, name)
    return f"{name}-{kind}" if kind else name


SUBLAYERS: Mapping[str, Sublayer] = Folder(HERE / "sublayers", Sublayer)


_EXPERTS = re.compile(r"(.+)@([1-9]\d{0,5})/([1-9]\d{0,5})")


def sublayer(name: str) -> Sublayer:
    """The sublayer called ``name``; ``ffn:swiglu`` and ``ffn-swiglu`` are the same.

    ``ffn-swiglu@2/8`` is a mixture of 8 such experts, 2 of them chosen for every token.
    """
    name = name.strip().replace(":", "-")
    if not (routed := _EXPERTS.fullmatch(name)):
        return choose("sublayer", name, SUBLAYERS)
    one = choose("sublayer", routed[1], SUBLAYERS)
    chosen, experts = int(routed[2]), int(routed[3])
    if one.unscaled or not 1 <= chosen <= experts or experts < 2:
        raise InputError(
            f"{name!r} is no mixture of experts: k of E feed-forwards are written ffn@k/E, such as "
            "ffn-swiglu@2/8, with k at most E and E at least 2"
        )
    return _mixture(one, chosen, experts)


@cache
def _mixture(one: Sublayer, chosen: int, experts: int) -> Sublayer:
    return replace(
        one,
        name=f"{one.name}@{chosen}/{experts}",
        branch=f"hadamard({one.branch}, softmax(x*{ROUTER}))",
        summary=f"{chosen} of {experts} experts, each a {one.summary}",
        source="Shazeer et al., arXiv 1701.06538",
        chosen=chosen,
        experts=experts,
    )


def letters(name: str) -> str:
    """A sublayer's name as part of a symbol's name."""
    return re.sub(r"\W", "", name)


# ---- normalisations ----

EPSILON = 1e-5  # under the root, as torch.nn.LayerNorm has it


@dataclass(frozen=True)
class Norm:
    r"""A normalisation, homogeneous of degree 0: :math:`x \mapsto \sqrt d\,Px/\|Px\|`.

    ``centred`` says whether P removes the mean (LayerNorm) or is the identity (RMSNorm);
    ``bias`` whether the norm has a bias vector besides its gain.
    """

    name: str
    centred: bool
    bias: bool
    summary: str = ""
    source: str = ""


LAYER = Norm(name="layer", centred=True, bias=True, summary="LayerNorm")

RMS = Norm(name="rms", centred=False, bias=False, summary="RMSNorm")

NORMS = declared(globals(), Norm)


def norm(name: str) -> Norm:
    return choose("norm", name, NORMS)
