r"""How initial sizes, multipliers and learning rates scale with the width, or with another shape.

A role is a map :math:`y = cWx` of ``shape`` (n_in, n_out). In the width d it is (1, d) for
embeddings and, as a column, for gains and biases; (d, d) within a branch; (d, 1) for the head and a
router. Another shape grows within a branch alone: of X heads, X hidden units or an adapter of rank
X the maps before are (1, X), the last one is (X, 1). Three conditions fix every size:

.. math:: c\,\sigma\sqrt{n_{in}} = 1, \qquad n\,c_H\sigma_H = 1, \qquad
          c\,\eta\,\mathrm{action} = 1,

(F) every activation is Θ(1) at the start; (H) instead, where n_in grows and n_out does not,
a Θ(1) move of the features changes the output by Θ(1) (n = n_in aligned, its root not); and (U) one
update changes the output of every role by Θ(1). What comes back to an output of n entries has the
size 1/n aligned, its root not: :math:`\delta = c_H\sigma_H` of what reads it, :math:`\gamma =
c\delta`. Of V tokens, or of E experts, each sees a share of the samples: :math:`\delta = 1/V`.
Of K experts that a token takes each is weighed by 1/K: they are averaged.
The sizes are unique up to W = cW′ in each role, the *gauge*.

Source: the conditions as in Yang and Hu, arXiv 2011.14522, and Yang et al., arXiv 2310.17813; the
sizes of updates are derived (:mod:`deepnet_theory.sizes.update`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

from deepnet_theory.definitions.constants import FORMS, FORWARD, WEIGHTS
from deepnet_theory.definitions.outcome import InputError, Refusal, unknown
from deepnet_theory.definitions.rule import KNOBS
from deepnet_theory.definitions.selection import (
    ACROSS,
    ALIGNMENTS,
    GRADIENT_NOISE,
    SHAPES,
    Selection,
)
from deepnet_theory.definitions.sublayer import ROUTER, Role, role_name, sublayer
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.batch import DOMINANT, POWERS, batch_row
from deepnet_theory.sizes.batch import conventions as of_batch
from deepnet_theory.sizes.equivalence import in_weights
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.table import COLUMN, HEAD, D, Known, ParameterRow, Place, places_of
from deepnet_theory.sizes.update import (
    FULL,
    FULL_RANK,
    GRADIENT,
    HALF,
    LOW_RANK,
    MANY,
    PARAMETER,
    Fold,
    counts,
    epsilon,
    step,
)

K = Monomial.of("k")
TIED = "tied-head"
# each token or expert sees its share of the samples: its power of the shape
SHARED = {"vocab": -1, "experts": -1, "top-k": 1}
SIZES = ("multiplier", "init", "gradient", "update", "action")
NUMBERS = (*SIZES, "rate", "epsilon", "decay", "coupled_decay")


def places(selection: Selection, across: str = "width") -> Iterator[Place]:
    """Every role that grows, embeddings first and the head last; in the width all of them."""
    if across in SHAPES:
        x, everywhere = Monomial.of(SHAPES[across]), places(selection)
        if across == "rank":
            everywhere = adapters(selection)
        grown = ((place, grows(across, place)) for place in everywhere)
        for place, end in grown:
            if end is not None:
                shape = {"in": (x, ONE), "out": (ONE, x)}.get(end, (ONE, ONE))
                kind = Role.HEAD if place.is_table else place.kind  # a row a token, as the head has
                averaged = x if end == "last" else ONE
                yield replace(place, shape=shape, kind=kind, averaged=averaged)
        return
    stack = selection.the_stack
    for part in stack.parts:
        outside = partial(Place, part.name, part.depth, "")
        for name in ("token_embedding", "position_embedding"):
            yield outside(name, Role.EMBEDDING)
        for branch in dict.fromkeys(part.layer):
            law = laws.law(selection.the_placement, branch, selection.the_norm)
            yield from places_of(part, law)
        if selection.the_placement.final_norm:
            yield outside("final_norm_gain", Role.NORM_GAIN)
    yield outside("head", Role.HEAD, HEAD)
    yield outside("head_bias", Role.HEAD_BIAS, (ONE, ONE))
    yield outside("tied_head", Role.EMBEDDING)


def adapters(selection: Selection, adapted: bool = True) -> Iterator[Place]:
    """The maps of a low-rank adapter beside a matrix of the width, W + BA, if there is one."""
    part = selection.the_stack.parts[-1]
    for name, shape in (("lora_a", HEAD), ("lora_b", COLUMN)) if adapted else ():
        yield Place(part.name, part.depth, "", name, Role.UNSCALED, shape)


def grows(across: str, place: Place) -> str | None:
    """Which end of a map a shape other than the width grows at; None where it leaves it alone.

    "" is for an expert, which sees another share of the tokens, "last" for its last map.
    """
    name, branch = place.parameter, place.sublayer and sublayer(place.sublayer)
    if across == "rank":
        return "out" if name == "lora_a" else "in"
    if not branch:
        return "out" if across == "vocab" and name in _OF_TOKENS else None
    if name not in {own.name for own in branch.parameters}:  # of a norm around it
        return None
    if across == "kv-heads":  # latent keys and values have a head for each of the queries'
        grouped = name.partition("_")[0] in ("key", "value")
        return "out" if grouped and "latent" not in branch.expression.names else None
    if across == "experts" and branch.experts > 1:
        return "out" if name == ROUTER else ""
    if across == "top-k" and branch.experts > 1:
        return "last" if name == branch.last else ""
    if (across == "ffn") != ("phi" in branch.expression.functions) or across not in _INNER:
        return None
    if name in (ROUTER, "latent") or place.kind is Role.OUTPUT_BIAS:
        return None
    return "in" if name == branch.last else "out"


_INNER = ("heads", "head-size", "ffn")
_OF_TOKENS = ("token_embedding", "head", "head_bias", "tied_head")


def texts(row: ParameterRow) -> dict[str, str | None]:
    """A row as texts, as the JSON has it."""
    names = ["init", "multiplier", "rate", "epsilon", "decay", "coupled_decay", "starved"]
    names += ["memory", "memory_rate"] if row.memory else []
    told = row.told(*names, written=written)
    return {**told, "init": told["init"] or "0", "coupled_decay_refused": row.coupled_refused}


def written(size: Monomial) -> str:
    """A size as text, its powers of the width apart from those of the depth."""
    return size.apart(*SHAPES.values(), "d")


@dataclass(frozen=True)
class Point:
    """A parametrisation: c and σ of every role by its public name, σ None for what starts at 0."""

    multipliers: Mapping[str, Monomial]
    inits: Mapping[str, Monomial | None]


def terms(n: Monomial, alignment: str) -> Monomial:
    """What a sum of n terms is to one of them."""
    return n ** (1 if alignment == FULL else HALF)


def scores(alignment: str) -> Monomial:
    """The multiplier of ⟨q, k⟩ over k entries: a move of q by Θ(1) moves the scores by Θ(1)."""
    return ONE / terms(K, alignment)


def rule_point(roles: Mapping[str, Place], alignment: str, form: str) -> Point:
    """The sizes and multipliers of the rule: c·σ of each role by (F) or (H), and its gauge.

    The gauge is c = 1, of what is averaged the average's size. The head's factor is in c or σ by
    the form; a tied head has the embedding's σ, which is 1.
    """
    multipliers, inits = dict[str, Monomial](), dict[str, Monomial | None]()
    for name, place in roles.items():
        tied = place.is_table and name == TIED
        n_in, n_out = HEAD if tied else place.shape
        total = n_in**HALF if n_in == n_out else terms(n_in, alignment)
        c = terms(place.averaged, alignment) / place.averaged
        init = None if place.starts_at_zero else ONE / (c * total)
        if tied or (name, form) == ("head", FORWARD):
            c, init = ONE / total, ONE
        multipliers[name], inits[name] = c, init
    return Point(multipliers, inits)


_STARTS_SMALL = (
    "{}: starts small, so that aligned moves of all inputs by one change its outputs by one. At "
    "the start these tend to 0. The start of alignment none keeps them of order one, and is in use"
)
_PREMISES = {
    "heads": "h heads of one size, queries, keys and values alike, in a stream of one width",
    "head-size": "heads of k entries, as many as before, in a stream of one width",
    "kv-heads": "G key and value heads, each read by its share of the query heads, which stay as "
    "many, and attend alike where updates are aligned",
    "ffn": "m hidden units, also of each expert, in a stream of one width",
    "vocab": "every token is as frequent as any other, and many times in a batch",
    "experts": (
        "E experts, and a token takes as many as before; each sees many tokens of a batch; "
        "its gradient is as large as its share of them; gates add up to one, whatever their number"
    ),
    "top-k": (
        "a token takes K experts of a fixed number; gates add up to one. At the start outputs are "
        "independent, and their average falls as K**(-1/2), which alignment none makes up for"
    ),
    "rank": (
        "W + B*A, W frozen; B starts at 0. A's gradient, rate and epsilon are those after the "
        "first step of B. A factor in front, as alpha/r, is W = c*W' for B"
    ),
}


@dataclass(frozen=True)
class RoleTable:
    """The rows of a selection in what grows, and how they came about.

    ``across`` is "width", "both" where the rows carry the depth's rule too, "batch", another shape
    or a list.
    """

    selection: Selection
    across: str
    alignment: str
    form: str
    rows: tuple[ParameterRow, ...]
    gradient_noise: str = DOMINANT

    @property
    def dimensions(self) -> tuple[str, ...]:
        """What grows, by name."""
        return tuple(self.across.replace("both", "depth,width").split(","))

    @cached_property
    def depth(self) -> Answer | None:
        """The rule in depth, where the rows have it."""
        return Answer(self.selection) if "depth" in self.dimensions else None

    def places(self, across: str) -> tuple[Place, ...]:
        """The roles that grow in one of the dimensions."""
        adapted = across in ("width", "batch") and "rank" in self.dimensions
        return (*places(self.selection, across), *adapters(self.selection, adapted))

    @property
    def in_width(self) -> bool:
        """Whether the width or another shape grows."""
        return not {*self.dimensions} <= {"depth", "batch"}

    @cached_property
    def batch(self) -> RoleTable | None:
        """Its table in the batch alone, if it has one."""
        if "batch" not in self.dimensions:
            return None
        of = partial(batch_row, optimizer=self.selection.the_optimizer, noise=self.gradient_noise)
        return replace(self, across="batch", rows=tuple(map(of, self.places("batch"))))

    def row(self, role: str, part: str = "") -> ParameterRow:
        """The first row of a role."""
        return next(r for r in self.rows if r.role == role and part in ("", r.place.part))

    @property
    def symbol(self) -> str:
        """What grows."""
        return SHAPES.get(self.across, "d")

    def reader(self, at: Place) -> ParameterRow:
        """The row of the map that reads a role's outputs: the head, or the last one in a branch."""
        if self.across in ACROSS:
            return self.row("head")
        inside = (
            r for r in self.rows if (r.place.part, r.place.sublayer) == (at.part, at.sublayer)
        )
        return next(r for r in inside if r.place.reads or r.place.averaged != ONE)

    @cached_property
    def forced(self) -> tuple[str, ...]:
        """What the conditions fix whatever the gauge, in words."""
        of_width = "width" in self.dimensions and not SHAPES.keys() & {*self.dimensions}
        return tuple(_forced(self)) if of_width else ()

    @property
    def conventions(self) -> tuple[str, ...]:
        """What is chosen, in words."""
        words = [*(self._of_width() if self.in_width else ()), *self._starved()]
        if "batch" in self.dimensions:
            words += of_batch(self.gradient_noise)
        if "batch" in self.dimensions[1:]:
            words.append("B_noise is of order one in each other dimension")
        return tuple(words)

    def _of_width(self) -> Iterator[str]:
        head = "in the forward pass" if self.form == FORWARD else "in its initial size"
        gauge = "W = c*W' in any role is the same model at another learning rate"
        reads = (r for r in self.rows if r.place.reads and not r.place.starts_at_zero)
        small = dict.fromkeys(r.role for r in reads if r.role != "head")
        in_width = "width" in self.dimensions
        yield f"alignment {self.alignment}: " + (
            "updates and moved features are aligned with what they meet, so that n_in terms add"
            if self.alignment == FULL
            else "updates and moved features are not aligned: sums of n_in terms grow as their root"
        )
        yield from self._of_rank()
        yield from self._of_vocabulary() if in_width else ()
        yield from (
            f"form {self.form}: the head's factor stands {head}; {gauge}" if in_width else gauge,
            "decoupled weight decay: learning rate times decay is kept; coupled: the decay's share "
            "of a step is kept",
            "epsilon is as large as what it stands beside",
            *(_STARTS_SMALL.format(", ".join(small)),) * (bool(small) and self.alignment == FULL),
            *(_PREMISES[name] for name in self.dimensions if name in _PREMISES),
            *(
                "query and key: rate and epsilon are those after the first step; their first "
                f"gradient is {scores(self.alignment) * K**HALF} of that, for heads of k entries",
                "key bias: its gradient is 0 at every width, so that any rate will do",
            )
            * (in_width or "head" in self.across),
        )

    def _starved(self) -> Iterator[str]:
        """The roles whose share falls with the depth, and why their rates stay, in words."""
        alike: dict[Monomial, dict[str, None]] = {}
        for row in self.rows:
            if row.starved is not None:
                alike.setdefault(row.starved, {})[row.role] = None
        for share, roles in alike.items():
            yield (
                f"starved in depth: {', '.join(roles)} change the output by {share} of a scaled "
                f"matrix's change. A rate {ONE / share} times as large would change it as much: "
                "that is a choice, which no condition here asks for"
            )

    def _of_rank(self) -> Iterator[str]:
        """The premise that an update with a polar factor has, in words."""
        if "polar" not in self.selection.the_optimizer.expression.functions:
            return
        says = {
            LOW_RANK: "low: a batch has fewer tokens than the width, so that polar(g) has as many "
            "directions as tokens; --rank full is for as many tokens as the width",
            FULL_RANK: "full: a batch has at least as many tokens as the width, so that polar(g) "
            "has every direction of the matrix; --rank low is for fewer tokens",
        }
        yield f"gradient rank {says[self.selection.rank]}"

    def _of_vocabulary(self) -> Iterator[str]:
        """The roles with another law where a vocabulary is larger than the width, in words."""
        roles, laws = {p.role: p for p in places(self.selection)}, dict[Monomial, list[str]]()
        point = rule_point(roles, self.alignment, self.form)
        of = (point, self.selection, self.alignment)
        for name in ("token-embedding", "head"):
            rates = (row_of(roles[name], *of, tokens=tokens).rate for tokens in (ONE, MANY))
            below, above = (rate and D ** rate.exponent("d") for rate in rates)
            if above and above != below:
                laws.setdefault(above, []).append(name)
        for rate, names in laws.items():
            yield (
                f"{' and '.join(names)}: the width is larger than the vocabulary. Up to there the "
                f"learning rate grows as {rate}; export over a base takes it from both sizes"
            )


def row_of(
    place: Place,
    point: Point,
    selection: Selection,
    alignment: str,
    backward: Monomial | None = None,
    tokens: Monomial = ONE,
) -> ParameterRow:
    """The row of one role at a point, in powers of the width: numbers are left out.

    ``backward`` is δ, where it is not as what reads the output sends it; ``tokens`` the rows of a
    matrix that has one a token, where an update depends on whether they are more than the width.
    """
    c, init = point.multipliers[place.role], point.inits[place.role]
    optimizer = selection.the_optimizer
    gradient = c * (backward or ONE / terms(place.shape[1], alignment))
    of_shape = counts(place.shape, selection.rank, is_table=place.is_table, tokens=tokens)
    values = {GRADIENT: gradient, **of_shape}
    if init is not None:
        values[PARAMETER] = init
    bare = ParameterRow(place, init, gradient, multiplier=c)
    if place.kind is Role.KEY_BIAS:
        return replace(bare, gradient=None, rate=ONE)
    try:
        update = step(optimizer, values, alignment)
    except Refusal as refusal:
        return replace(bare, refused=str(refusal))
    entry, action = update.entry.put(values), c * update.action.put(values)
    entry, rate = entry.without_number, (ONE / action).without_number
    beside = epsilon(optimizer, Fold(values))
    epsilons = beside and beside.without_number
    row = replace(bare, update=entry, action=ONE / rate, rate=rate, epsilon=epsilons, step=update)
    if not place.is_matrix:
        return row
    row = replace(row, decay=ONE / rate)
    # a decay that is added to the gradient: a term of its own where the update is linear in g;
    # elsewhere as large as g, its share of the matrix in one step is what the update leaves it
    if update.entry.exponent(GRADIENT) == 1 and not update.entry.exponent(PARAMETER):
        return replace(row, coupled_decay=ONE / rate)
    if init is None:
        return row
    if rate * entry / init == ONE:
        return replace(row, coupled_decay=(gradient / init).without_number)
    why = (
        "a coupled weight decay cannot keep both its size beside the gradient and its share of the "
        "matrix in one step: take a decoupled one"
    )
    return replace(row, coupled_refused=why)


def share(across: str, place: Place) -> Monomial:
    """The share of the tokens that a role sees, in what grows of a list."""
    seen = (name for name in across.split(",") if name in SHARED and grows(name, place) is not None)
    return Monomial.from_powers({SHAPES[name]: Fraction(SHARED[name]) for name in seen})


def sent_back(across: str, place: Place, point: Point) -> Monomial | None:
    """δ behind what reads a role, and of its share of the tokens; None where it is 1/n."""
    if across in ("vocab", "experts"):
        return share(across, place)
    last = role_name(sublayer(place.sublayer).last) if place.sublayer else place.role
    if place.role != last and across in (*_INNER, "top-k"):
        return point.inits[last]
    # K times as many tokens, each weighed by 1/K
    return ONE / point.multipliers[last] if across == "top-k" else None


def require_multipliers(c: Monomial, form: str) -> str | None:
    """Why a form has no tied head of a multiplier c."""
    if form != WEIGHTS or c == ONE:
        return None
    return (
        f"a tied head reads the embedding through a multiplier of {c}, which the form {form!r} "
        "leaves out"
    )


def require_one_rate(embedding: ParameterRow, head: ParameterRow) -> str | None:
    """Why one matrix cannot be both of these rows."""
    if embedding.refused or embedding.rate == head.rate:
        return embedding.refused
    return (
        f"a tied head asks for two rates of one matrix: {embedding.rate} as the embedding and "
        f"{head.rate} as the head"
    )


def _tied(
    place: Place, point: Point, selection: Selection, alignment: str, form: str
) -> ParameterRow:
    """The row of a matrix that is embedding and head: one size, one rate, one multiplier.

    Torch stores it as V × d for both, so that Muon, whose factor of the shape grows with V/d alone,
    asks for one rate too.
    """
    c, init = point.multipliers[TIED], point.inits[TIED]
    if why := require_multipliers(c, form):
        return ParameterRow(place, None, refused=why)
    plain = Point({**point.multipliers, "token-embedding": ONE, "head": c},
                  {**point.inits, "token-embedding": init, "head": init})  # fmt: skip
    embedding, head = (
        row_of(replace(place, parameter=name, kind=kind, shape=shape), plain, selection, alignment)
        for name, kind, shape in (
            ("token_embedding", Role.EMBEDDING, COLUMN),
            ("head", Role.HEAD, HEAD),
        )
    )
    if why := require_one_rate(embedding, head):
        return ParameterRow(place, init, multiplier=c, refused=why)
    return replace(embedding, place=place, multiplier=c)


def role_table(
    selection: Selection,
    across: str = "width",
    alignment: str = FULL,
    form: str = FORWARD,
    built: bool = False,
    gradient_noise: str = DOMINANT,
) -> RoleTable:
    """The table of a selection in width, in width and depth ("both"), in another shape or a list.

    Of several dimensions each role has the product of its rows. With the rank of an adapter the
    width has the adapter's rows too. ``built`` is of shapes, where matrices start with entries of
    size n**(-1/2), n the inputs that grow, as models are built. In the batch ``gradient_noise`` is
    "dominant" or "none", and B_noise of order one in what else grows. Raises :class:`Refusal` where
    no role has a rate, or the depth has no rule.
    """
    for what, value, valid in (
        ("alignment", alignment, ALIGNMENTS),
        ("form", form, FORMS),
        ("gradient noise", gradient_noise, GRADIENT_NOISE),
    ):
        if value not in valid:
            raise unknown(what, value, valid)
    table = RoleTable(selection, across, alignment, form, (), gradient_noise)
    rows = dict[Known, ParameterRow]()
    for dimension in in_order(table.dimensions):
        names = POWERS if dimension == "batch" else NUMBERS
        for row in _rows(table, dimension, built):
            if before := rows.get(at := row.place.known):
                rows[at] = product(before, row, names)
            elif names is NUMBERS or dimension == across:
                rows[at] = row
    return replace(table, rows=tuple(rows.values()))


def in_order(dimensions: tuple[str, ...]) -> list[str]:
    """The order in which rows are multiplied: the place of the width stays, the batch is last."""
    return sorted(dimensions, key=lambda name: {"depth": 1, "batch": 2}.get(name, 0))


def _rows(table: RoleTable, across: str, built: bool) -> Iterator[ParameterRow]:
    """The rows of one dimension, in powers of its own symbol."""
    selection, alignment, form = table.selection, table.alignment, table.form
    if across == "depth":
        yield from _in_depth(selection, form)
        return
    everywhere = table.places(across)
    if across == "batch":
        update, noise = selection.the_optimizer, table.gradient_noise
        seen = partial(share, table.across)
        yield from _some([batch_row(p, update, noise, seen(p)) for p in everywhere])
        return
    if not everywhere:
        raise Refusal(
            f"no parameter of this layer grows with {across}: heads need attention, and experts "
            "and top-k a layer such as attention,ffn-swiglu@2/8"
        )
    point = rule_point({place.role: place for place in everywhere}, alignment, form)
    if built:
        starts = {p.role: None if p.starts_at_zero else p.shape[0] ** -HALF for p in everywhere}
        point = replace(point, inits=starts)
    rows = [
        _tied(p, point, selection, alignment, form)
        if p.role == TIED and p.is_table
        else row_of(p, point, selection, alignment, sent_back(across, p, point))
        for p in everywhere
    ]
    yield from _some(rows, every=across == "rank")  # a factor at 0 keeps the other one there


def _some(rows: list[ParameterRow], *, every: bool = False) -> list[ParameterRow]:
    """These rows; raises :class:`Refusal` where no role has a rate, or not ``every`` one."""
    refused = [row.refused for row in rows if row.refused]
    if all(row.refused or row.place.kind is Role.KEY_BIAS for row in rows) or (every and refused):
        raise Refusal(refused[0])
    return rows


def _in_depth(selection: Selection, form: str) -> Iterator[ParameterRow]:
    """What the rule in N and M multiplies the numbers of each role by."""
    rule = Answer(selection).table
    moved = {} if form == FORWARD else in_weights(selection)
    known, eta = {row.place: row for row in rule.parameters}, rule.rule.parts[-1].eta
    bare = dict.fromkeys(NUMBERS, ONE) | {"rate": eta}
    bare |= dict.fromkeys(("decay", "coupled_decay"), ONE / eta)
    for place in places(selection):
        own: dict[str, Any] = dict(bare)
        if deep := known.get(place):
            powers = moved.get((place.sublayer, place.parameter), {})
            alpha = rule.rule.kind(place.part, place.sublayer).alpha
            sizes = (deep.init, eta * (deep.rate or ONE), deep.epsilon, deep.decay)
            names = zip(("init", "rate", "epsilon", "decay"), KNOBS, sizes, strict=True)
            own |= {n: size * alpha ** powers.get(k, 0) if size else ONE for n, k, size in names}
            own |= {"coupled_decay": own["decay"], "share": deep.share}
        yield ParameterRow(place, **own)


def product(
    one: ParameterRow, other: ParameterRow, names: tuple[str, ...] = NUMBERS
) -> ParameterRow:
    """What a role takes in two dimensions; the batch's has the numbers of these ``names``."""
    if names == POWERS:  # no other dimension changes what an average spans
        one = replace(one, memory=ONE, memory_rate=one.rate)
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in names)
    values: dict[str, Any] = {name: a * b if a and b else None for name, a, b in pairs}
    for name in ("share", "refused", "coupled_refused"):
        values[name] = getattr(one, name) or getattr(other, name)
    return replace(one, **values)


@dataclass(frozen=True)
class Scale:
    """A model and the smaller one that its numbers are multiples of.

    ``sizes`` are the width d and the depths, of the model and of the base; ``shapes`` are others
    over the base's. Raises :class:`InputError` where the base is the larger.
    """

    sizes: Mapping[str, tuple[int, int]]
    shapes: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for symbol, (size, base) in self.sizes.items():
            what = "width" if symbol == "d" else f"depth {symbol}"
            if not 1 <= base <= size:
                raise InputError(f"the base {what} {base} is not from 1 to the {what}, {size}")

    def ratio(self, size: Monomial) -> float:
        """What a size in d, N, M and shapes multiplies the base's own by; numbers cancel."""
        ratios = {symbol: own / base for symbol, (own, base) in self.sizes.items()}
        ratios |= {SHAPES[name]: times for name, times in self.shapes.items()}
        ratios["B"] = 1  # of one batch
        powers = size.without_number.items
        return float(math.prod(ratios[symbol] ** float(power) for symbol, power in powers))

    @property
    def words(self) -> str:
        sizes = ((symbol.replace("d", "width"), *both) for symbol, both in self.sizes.items())
        pairs = (f"{name} {size} from {base}" for name, size, base in sizes)
        return ", ".join((*pairs, *(f"{n} times {by:.4g}" for n, by in self.shapes.items())))


# ---- what the conditions force ----


def _forced(table: RoleTable) -> Iterator[str]:
    """Every product that is the same in all gauges, W = c*W' in any role; equal ones together."""
    roles = {p.role: p for p in places(table.selection)}
    point = rule_point(roles, table.alignment, table.form)
    products: dict[str, dict[str, Monomial]] = {"multiplier*init": {}, "backward size": {}}
    for name, place in roles.items():
        c, init, row = point.multipliers[name], point.inits[name], table.row(name)
        if init is None or name == TIED:
            continue
        products["multiplier*init"][name] = c * init
        products["backward size"][name] = ONE / terms(place.shape[1], table.alignment)
        if row.step is not None and row.rate is not None:
            # of degree p in the gradient, which is c times as large, and q in the size, 1/c
            power = 1 + row.step.action.exponent(GRADIENT) - row.step.action.exponent(PARAMETER)
            factor = {"0": "", "1": "*multiplier"}.get(str(power), f"*multiplier**({power})")
            rate = D ** row.rate.exponent("d")
            products.setdefault(f"rate{factor}", {})[name] = rate * c**power
    for what, by_role in products.items():
        alike: dict[Monomial, list[str]] = {}
        for name, product in by_role.items():
            alike.setdefault(product, []).append(name)
        for value, names in alike.items():
            yield f"{what} = {value} for {', '.join(names)}"
    yield f"multiplier of the scores = {scores(table.alignment)} for heads of k entries"
