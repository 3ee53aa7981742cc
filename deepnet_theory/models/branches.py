r"""The matrices of a branch by role, from what is done with their products.

Queries and keys meet in the scores and values are mixed by them; what the mixture enters is the
output. Without scores, what enters a nonlinearity is fc1 and what follows it fc2; where two
products are multiplied, the one that went through the nonlinearity is the gate. A packed matrix
is cut by derivatives: of its outputs, those that a query depends on are the query's.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import torch
from torch import Tensor

from deepnet_theory.definitions.reading import NEAR, UNKNOWN, FoundMatrix
from deepnet_theory.definitions.sublayer import SUBLAYERS
from deepnet_theory.models.operations import (
    CHOICES,
    FUSED,
    LAYOUT,
    PRODUCTS,
    Product,
    Term,
    factors,
    is_linear,
    multiple,
    onward,
    stripped,
)
from deepnet_theory.models.recording import Graph, Node, walk
from deepnet_theory.models.sums import RecordedNorm
from deepnet_theory.runtime.branches import ACTIVATIONS

# operations that depend on every entry of their input, of x or −x: no derivative has to say it
PASSING = LAYOUT - {"native_dropout"} | {"add", "relu", "gelu", "silu"}
LONGEST = 600  # operations of a branch without experts: attention has some fifty, a scan more
RAISED, OPEN = 30.0, 1e4  # queries and keys where softmax chooses; a sigmoid of the other is 1
WITHOUT_GRADIENT = "a router chooses experts, and no gradient reaches its matrix"
SAME = 1e-2  # of a size; a weighted mean of equal values is right to the type's rounding
LARGE = 16.0  # of an activation's inputs: there GELU is as good as ReLU, and 16 bits hold a square


@dataclass(frozen=True)
class Parts:
    """What was made out in a graph; ``stops`` are the nodes of its streams, where branches end."""

    graph: Graph
    products: Mapping[Node, Product]
    norms: Mapping[Node, RecordedNorm]
    stops: Collection[Node]


def _drawn(like: Node, generator: torch.Generator) -> Tensor:
    """Normal values in a node's own layout, which views rely on."""
    drawn = torch.empty_like(like.value)
    return drawn.copy_(torch.empty(like.value.shape).normal_(generator=generator))


def outputs_of(graph: Graph, product: Product, end: Node) -> list[int]:
    """The outputs of a product that ``end`` depends on."""
    start = product.node
    axis = -1 if factors(start)[0] is product.source else -2
    axis = 1 if start.op == "convolution" else axis
    along = graph.between(start, end)  # none where it does not depend
    if along and all(_passes(graph, n, start) for n in along[1:]):
        return list(range(start.value.shape[axis]))
    generator = torch.Generator().manual_seed(0)
    drawn = _drawn(start, generator)
    used = torch.zeros(drawn.shape[axis], dtype=torch.bool, device=drawn.device)
    for x in (drawn, -drawn):  # of x and -x, an activation lets one pass
        with torch.enable_grad():
            leaf = x.clone().requires_grad_()
            again = graph.replay(end, {start: leaf})
            if not again.requires_grad:  # only which entries are chosen depends on it
                continue
            weights = torch.empty(again.shape).normal_(generator=generator).to(again)
            (gradient,) = torch.autograd.grad((again * weights).sum(), leaf, materialize_grads=True)
        used |= gradient.movedim(axis, 0).flatten(1).ne(0).any(1)
        if used.all():
            break
    return used.nonzero().flatten().tolist()


def _passes(graph: Graph, node: Node, start: Node) -> bool:
    return node.op in PASSING and sum(graph.depends(i, start) for i in node.inputs) == 1


@dataclass(frozen=True)
class Core:
    """Where values are mixed: ``scores`` of ``query`` and ``key`` times ``value``.

    ``times`` multiplies the scores before the softmax, relative to 1/√k.
    """

    node: Node
    query: Node
    key: Node
    value: Node
    times: float


class BranchReader:
    """What lies between the stream and the end of one branch.

    ``kind`` and ``matrices`` are those of the sublayer; ``causal`` is None without self-attention.
    """

    def __init__(self, parts: Parts, stream: Node, end: Node) -> None:
        self.graph, self.norms, self.end = parts.graph, parts.norms, end
        self.stops = frozenset(parts.stops)
        self.nodes = sorted(self._behind(end))
        learns = [n for n in self.nodes if n.differentiable and self.graph.learns(n)]
        self.choosing = parts.products.keys() & {*self.nodes}.difference(learns)  # and no more
        products = {n: parts.products[n] for n in learns if n in parts.products}
        chooses = any(n.op in CHOICES for n in self.nodes)  # else stacked matrices are no experts
        self.products = {n: p for n, p in products.items() if chooses or p.stacked == 1}
        self.bilinear = {
            n for n in learns
            if (n.op in PRODUCTS and n not in self.products) or (FUSED in n.op and not n.which)
        }  # fmt: skip
        self.notes: list[str] = []
        self.because, self.gating = "", set[Node]()
        self.origins = cache(self._origins)
        self.roles: list[tuple[Product, FoundMatrix]] = []
        self.beside: set[Node] = set()  # what enters attention's output beside its mixture
        self.foreign: list[Node] = []  # products that see another input than the branch's own
        self.causal: bool | None = None
        self.kind = self._kind(stream)
        if self.kind == UNKNOWN:
            self.roles = []
        known = {product.node for product, _ in self.roles}
        others = (product for node, product in self.products.items() if node not in known)
        self.matrices = (
            *(m for _, m in self.roles),
            *(matrix_of(UNKNOWN, p, range(p.matrix.shape[0])) for p in others),
        )

    @property
    def is_long(self) -> bool:
        """Whether a branch has too many operations to be computed again in parts."""
        return len(self.nodes) > LONGEST and not any(n.op in CHOICES for n in self.nodes)

    def _kind(self, stream: Node) -> str:
        if self.is_long:
            self.because = (
                f"its branch has {len(self.nodes)} operations, as a loop over tokens has; one of "
                f"more than {LONGEST} is not taken apart: fewer tokens may do"
            )
            return UNKNOWN
        if self.core is not None:
            kind = self._attention(self.core, stream)
            if kind.startswith("attention"):
                self.causal = self._is_causal(self.core)
            if self.gates or self.beside:  # the gate has no law, whatever it multiplies
                return UNKNOWN
        elif (choice := self._choice()) is not None:
            kind = self._experts(*choice)
        elif self.choosing and any(p.stacked > 1 for p in self.products.values()):
            return UNKNOWN
        else:
            kind = self._opened() if self.gates else self._feed_forward()
        if kind == UNKNOWN:
            return UNKNOWN
        # those of cross-attention, and of scores, may see another
        aside = ("query", "key", "value" if kind == "cross" else "")
        seeing = (p.node for p, m in self.roles if m.role not in aside)
        self.foreign = [node for node in seeing if not self.graph.depends(node, stream)]
        return UNKNOWN if self.foreign else kind

    def _behind(self, start: Node, ends: Container[Node] = ()) -> Iterator[Node]:
        """What ``start`` is made of within the branch, itself included, down to the ``ends``."""

        def inside(node: Node) -> bool:
            return node.live and node not in self.stops

        def inputs(node: Node) -> Iterable[Node]:
            return () if node in ends else filter(inside, node.inputs)

        return walk(start, inputs) if inside(start) else iter(())

    def _origins(self, node: Node) -> frozenset[Node]:
        """The products that a node is directly made of, of two live tensors or with a matrix."""
        made_of = self.products.keys() | self.bilinear
        return frozenset(n for n in self._behind(node, made_of) if n in made_of)

    def _products_of(self, node: Node) -> list[Node]:
        """Those of its :attr:`origins` that are products with a matrix, in order."""
        return sorted(self.origins(node) & self.products.keys())

    def _is_linear(self, start: Node, end: Node) -> bool:
        """Whether a product becomes ``end`` by sums and multiples alone."""
        return all(map(is_linear, self.graph.between(start, end)[1:]))

    def _outputs(self, start: Node, end: Node) -> list[int]:
        return outputs_of(self.graph, self.products[start], end)

    @property
    def activation(self) -> str:
        """The function between fc1 and fc2: of the activations built here the one most like it."""
        by_role = {m.role: p for p, m in reversed(self.roles)}
        if not {"fc1", "fc2"} <= by_role.keys():
            return ""
        x = _drawn(by_role["fc1"].node, torch.Generator().manual_seed(0))
        y = self.graph.replay(by_role["fc2"].source, {by_role["fc1"].node: x}).flatten()
        if len(y) != x.numel():
            return ""
        pairs = {name: torch.stack([y, phi(x).flatten()]) for name, phi in ACTIVATIONS.items()}
        return max(pairs, key=lambda name: float(torch.corrcoef(pairs[name])[0, 1]))

    def _degree(self, entering: Node, inner: Iterable[Node]) -> float:
        r"""The power p of rms ∝ t^p where what ``inner`` products give is multiplied by a large t.

        0 behind a norm, and of an activation that is bounded.
        """
        generator = torch.Generator().manual_seed(0)
        drawn = {n: _drawn(n, generator) for n in inner}
        sizes = [
            float(self.graph.replay(entering, {n: t * x for n, x in drawn.items()}).double().norm())
            for t in (LARGE, 2 * LARGE)
        ]
        return math.log2(sizes[1] / sizes[0]) if all(sizes) else 0.0

    @cached_property
    def core(self) -> Core | None:
        """The one attention of the branch, None where there is none."""
        if self.is_long:
            return None
        cores = []
        for node in (n for n in self.nodes if n in self.bilinear):
            if FUSED in node.op:
                query, key, value = node.args[:3]
                root = math.sqrt(query.value.shape[-1])
                times = (node.keywords.get("scale") or 1 / root) * root
                cores.append(Core(node, query, key, value, times))
                continue
            left, right = factors(node)
            ways = (self._mixture(node, *way) for way in ((left, right), (right, left)))
            cores += [core for core in ways if core is not None][:1]
        if len(cores) > 1:
            self.notes.append("several attentions in one branch")
        return cores[0] if len(cores) == 1 else None

    def _mixture(self, node: Node, weights: Node, value: Node) -> Core | None:
        """The attention that a product is; None where its weights are no scores of query and key.

        Scores have one term: tables of positions that meet a query or a key have no law here.
        """
        inner = [n for n in self.origins(weights) if n in self.bilinear]
        if len(inner) != 1 or FUSED in inner[0].op or not all(f.live for f in factors(inner[0])):
            return None
        (both,) = inner
        query, key = factors(both)
        times = float(both.keywords.get("alpha", 1.0)) * math.sqrt(query.value.shape[-1])
        *_, (_, factor, _) = (Term(both), *onward(self.graph, both))
        return Core(node, query, key, value, times * factor)

    def _is_causal(self, core: Core) -> bool:
        """Whether the first token's mixture depends on no other token's value."""
        value, mixed = core.value.value, core.node.value
        if value.shape[-2] < 2 or mixed.shape[-2] < 2:
            return False
        other, memory = value.clone(), max(0, value.shape[-2] - mixed.shape[-2])
        # all of them: a window in both directions reaches the next alone
        other[..., memory + 1 :, :] += 1
        again = self.graph.replay(core.node, {core.value: other})
        return bool(torch.equal(again[..., 0, :], mixed[..., 0, :]))

    # ----------------------------------------------------------------------------- roles

    @cached_property
    def gates(self) -> tuple[Node, ...]:
        """The products that make what the whole branch is multiplied by, without a stream's."""
        node = self.end
        while node not in self.stops and node not in self.norms:
            live = node.live_inputs
            if node.op == "mul" and len(live) == 2:
                both = [self.origins(i) for i in live]
                if not all(both) or both[0] == both[1]:
                    return ()
                aside = not any(self.graph.depends(live[0], stop) for stop in self.stops)
                straight = all(self._is_linear(o, live[0]) for o in both[0])
                return tuple(self._products_of(live[0] if aside or not straight else live[1]))
            if len(live) != 1 or (multiple(node) is None and node.op not in ("add", "sub")):
                return ()
            node = live[0]
        return ()

    def why(self) -> str:
        """What was seen that leaves matrices of the branch without a role, where it is known."""
        if self.because:
            return self.because
        if self.choosing and not self.products:
            return WITHOUT_GRADIENT
        known, names = {product.parameter for product, _ in self.roles}, self._names
        without = [n for n, p in self.products.items() if p.parameter not in known]
        if not without:
            return ""
        if self.foreign:
            return (
                f"values computed with {names(self.foreign)} enter it, which do not see its "
                "input (a value residual, say): they have no law here"
            )
        if not self.roles and (router := self._router()) is not None:
            return (
                f"a router chooses experts ({names([router])}), whose branches are of no "
                "form that has a law here"
            )
        if self.gates:
            return (
                f"the branch is multiplied by values computed with {names(self.gates)}, "
                "which has no law here"
            )
        if self.beside:
            return (
                f"values computed with {names(self.beside)} enter its output matrix beside "
                "those that attention mixes, which has no law here"
            )
        if self.roles:
            return f"values computed with {names(without)} enter it"
        if self.bilinear:
            return f"activations are multiplied, and not as in attention ({names(without)})"
        if self._convolutions:
            return (
                f"tokens are mixed by a convolution ({names(self._convolutions)}), which has no "
                "law here"
            )
        return WITHOUT_GRADIENT if self.choosing else ""

    @property
    def _convolutions(self) -> list[Node]:
        """The products whose matrix reaches further than one token."""
        shapes = {n: p.parameter.value.shape for n, p in self.products.items()}
        return [n for n, s in shapes.items() if n.op == "convolution" and math.prod(s[2:]) > 1]

    def _router(self) -> Node | None:
        """The product by whose size experts are chosen or weighed."""
        for node in self.nodes:
            made_of = self._products_of(node)
            weighs = "softmax" in node.op and not {*self.gates}.isdisjoint(made_of)
            if made_of and (weighs or node.op in CHOICES):
                return made_of[0]
        return None

    def _names(self, nodes: Iterable[Node]) -> str:
        names = list(dict.fromkeys(self.products[n].name for n in sorted(nodes)))
        return f"{names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")

    def entered_from(self, node: Node) -> tuple[str, ...]:
        """The roles of the matrices that a node enters, with numbers and in another layout."""
        entered = (m.role for p, m in self.roles if stripped(p.source, self.norms)[0] is node)
        return tuple(dict.fromkeys(entered))

    def is_of_scores(self, node: Node) -> bool:
        """Whether a node enters the attention's query or key, and not its value."""
        if self.core is None:
            return False
        slots = (self.core.query, self.core.key, self.core.value)
        query, key, value = (self.graph.depends(slot, node) for slot in slots)
        return (query or key) and not value

    def _assign(self, role: str, nodes: Iterable[Node], end: Node) -> None:
        """A role for the products that ``end`` is made of."""
        for node in sorted(nodes):
            product = self.products.get(node)
            if product is None:
                self.notes.append(f"the {role} is made of a product of activations")
                continue
            if outputs := self._outputs(node, end):  # else a gate of zeros lets nothing pass
                times = self._times(product)
                if role in ("query", "key"):
                    times = self._times_in_scores(role, product, end)
                before = self._before(product)
                self.roles.append((product, matrix_of(role, product, outputs, times, before)))

    def _attention(self, core: Core, stream: Node) -> str:
        for role, slot in (("query", core.query), ("key", core.key), ("value", core.value)):
            self._assign(role, self.origins(slot), slot)
        after = [n for n in self.products if core.node in self.origins(self.products[n].source)]
        for node in after:
            beside = self.origins(self.products[node].source) - {core.node}
            self.beside |= beside & self.products.keys()
            if not beside <= self.products.keys():
                self.notes.append("the gate is made of a product of activations")
            if self.end is node or node in self.origins(self.end):
                self._assign("output", [node], self.end)
        if why := self._multiplied(core, after):
            self.because = why
            return UNKNOWN
        latent = self._compress()
        keys = [product for product, m in self.roles if m.role == "key"]
        if not keys:  # experts whose matrices a router chooses
            return UNKNOWN
        reads = any(self.graph.depends(p.source, stream) for p in keys)
        if not latent and reads and self._gated(core, after):
            return "attention-gated"
        return "attention-latent" if latent and reads else "attention" if reads else "cross"

    def _multiplied(self, core: Core, after: Sequence[Node]) -> str:
        """By what number equal values are multiplied that is no factor of the output matrix.

        Scores are raised until a sink, one more logit whose weight meets no value, takes nothing,
        and gates are opened. A norm takes such a number away, but not what is learnt between two
        parts of the mixture, as differential attention's.
        """
        if len(after) != 1:
            return ""
        source = self.products[after[0]].source
        between = self.graph.between(core.node, source)
        if norms := [self.norms[node] for node in between if node in self.norms]:
            inside = self.graph.between(core.node, norms[0].start)[1:]
            beside = (i for n in inside if n.op in ("mul", "div") for i in n.inputs if not i.live)
            if learnt := [p.name for vector in beside for p in vector.parameters]:
                return f"what it mixes is multiplied by {learnt[0]}, which has no law there"
            return ""
        raised = {core.query: RAISED, core.key: RAISED, core.value: 1.0}
        raised |= dict.fromkeys(self.beside, OPEN)
        given = {node: torch.full_like(node.value, to) for node, to in raised.items()}
        size = float(self.graph.replay(source, given).double().square().mean().sqrt())
        known = abs(stripped(source, self.norms, self.products)[1])
        if math.isclose(size, known, rel_tol=SAME):
            return ""
        return f"it multiplies its values by {size:.3g}, and no rule has a law for that"

    def _gated(self, core: Core, after: Sequence[Node]) -> bool:
        """Whether one bounded gate of the branch's input multiplies what enters the output."""
        roles = [m.role for _, m in self.roles]
        if len(self.beside) != 1 or len(after) != 1 or "output" not in roles:
            return False
        (made,), (last,) = self.beside, after
        node, _ = stripped(self.products[last].source, self.norms)
        if node.op != "mul" or len(node.live_inputs) != 2:
            return False
        gate, mixed = sorted(node.live_inputs, key=lambda n: self.graph.depends(n, core.node))
        if self.origins(gate) != {made} or self.origins(mixed) != {core.node}:
            return False
        ends = [
            self.graph.replay(gate, {made: torch.full_like(made.value, to)}) for to in (-1e3, 1e3)
        ]
        opens = all(torch.equal(end, torch.full_like(end, i)) for i, end in enumerate(ends))
        if opens:
            product = self.products[made]
            outputs = self._outputs(made, gate)
            factors = self._times(product), self._before(product)
            gating = matrix_of("gate", product, outputs, *factors)
            self.roles.insert(roles.index("output"), (product, gating))
            self.beside = set()
        return opens

    def _compress(self) -> bool:
        """Take latent vectors, which a norm divides before queries, keys or values are made.

        A product may give a part of the keys beside them: its other outputs stay the key's.
        """
        latent: dict[Product, list[int]] = {}
        sources = (p.source for p, m in self.roles if m.role in ("query", "key", "value"))
        for source in dict.fromkeys(sources):
            norm = self.norms.get(stripped(source, self.norms)[0])
            if norm is not None:
                for node in self._products_of(norm.start):
                    latent[self.products[node]] = self._outputs(node, norm.start)
        kept = []
        for p, m in self.roles:
            taken = {o + (p.offset or 0) for o in latent.get(p, ())}
            rest = [o - (p.offset or 0) for run in m.outputs for o in range(*run) if o not in taken]
            kept += [(p, matrix_of(m.role, p, rest) if taken else m)] * bool(rest)
        compressed = [(p, matrix_of("latent", p, rows)) for p, rows in latent.items() if rows]
        self.roles = [*compressed, *kept]
        return bool(compressed)

    def _feed_forward(self) -> str:
        last = self._products_of(self.end)
        alone = len(last) == 1 and not (self.bilinear or self._convolutions)
        return self._maps(last[0]) if alone else UNKNOWN

    def _opened(self) -> str:
        """A gated feed-forward times one number a token, such as a shared expert's gate."""
        last = [n for n in self._products_of(self.end) if n not in self.gates]
        gate = self.products[self.gates[0]]
        one = len(self.gates) == 1 and len(gate.matrix) == 1
        if not one or len(last) != 1 or self.bilinear or self._maps(last[0]) != "ffn-swiglu":
            return UNKNOWN
        self.roles.insert(0, (gate, matrix_of("router", gate, [0])))
        return "ffn-swiglu-gated"

    def _choice(self) -> tuple[Node, int, int] | None:
        """The product of a router, how many experts it chooses for a token, and of how many."""
        for node in (n for n in reversed(self.nodes) if n.op in CHOICES):
            routers = self._products_of(node.args[0])
            experts = node.args[0].value.shape[-1]
            if len(routers) == 1 and len(self.products[routers[0]].matrix) == experts > 1:
                return routers[0], node.value.shape[-1] if node.op == "topk" else 1, experts
        return None

    def _experts(self, router: Node, chosen: int, experts: int) -> str:
        """k of E feed-forwards weighed by gates, stacked in one parameter or one by one."""
        last = [n for n in self._products_of(self.end) if n is not router]
        kinds = {self._maps(down) for down in last}
        entered = [p for p, m in self.roles if m.role in ("fc1", "gate")]
        if any(self._outputs(router, p.source) for p in entered):
            self.because = (
                f"the gates of experts multiply what enters them ({self._names([router])}), and "
                "not what leaves them, which has no law here"
            )
        if len(kinds) != 1 or UNKNOWN in kinds or self.because:
            return UNKNOWN
        felt = {p.node for p, _ in self.roles}  # not on one that no token chose
        seen = sum(self.products[down].stacked for down in felt.intersection(last))
        if seen < experts:
            self.because = (
                f"{seen} of {experts} experts were chosen in the forward pass: give it more tokens"
            )
            self.notes.append(self.because)
        self.gating = {  # what makes gates of the router's logits
            n for n in self.graph.between(router, self.end)
            if not any(self.graph.depends(n, p.node) for p in entered)
            and not any(self.graph.depends(p.node, n) for p in entered)
        }  # fmt: skip
        # what the gates of a token add up to: a number that multiplies what leaves the experts,
        # before a norm on it takes numbers away
        normed = (n.start for n in self.norms.values() if self.graph.depends(self.end, n.end))
        behind = [x for x in normed if all(self.graph.depends(x, down) for down in last)]
        added = min(behind, default=self.end)
        ones, none = (
            self.graph.replay(added, {n: torch.full_like(n.value, v) for n in last})
            for v in (1.0, 0.0)
        )
        total = abs(float((ones - none).mean()))
        for place, (product, m) in enumerate(self.roles):
            if product.node in last:
                self.roles[place] = product, replace(m, times=m.times * total)
        routing = matrix_of("router", self.products[router], range(experts))
        self.roles.insert(0, (self.products[router], routing))
        (kind,) = kinds
        return f"{kind}@{chosen}/{experts}"

    def _maps(self, down: Node) -> str:
        """The roles of a feed-forward that ends in a product, and its kind."""
        entering = self.products[down].source
        before = self.origins(entering)
        if len(before) == 1 and self._is_linear(next(iter(before)), entering):
            return UNKNOWN  # two factors of one matrix
        inner = self.origins(entering)
        if gated := self._gate(entering, inner):
            gate, up = gated
            self._assign("gate", self.origins(gate), gate)
            self._assign("up", self.origins(up), up)
            self._assign("down", [down], self.end)
            return self._of_degree({0: "ffn-swiglu", 2: "ffn-swiglu"}, entering, inner)
        if len(inner) == 1:
            self._assign("fc1", inner, entering)
            self._assign("fc2", [down], self.end)
            return self._of_degree({0: "ffn", 1: "ffn", 2: "ffn-relu2"}, entering, inner)
        return UNKNOWN

    def _of_degree(self, kinds: Mapping[int, str], entering: Node, inner: Iterable[Node]) -> str:
        """The kind whose hidden layer grows as this one does with what enters its activation."""
        power = self._degree(entering, inner)
        near = round(power)
        if abs(power - near) < NEAR and kinds.get(near) in SUBLAYERS:
            return kinds[near]
        self.because = (
            f"its hidden layer grows as the power {power:.2g} of what its first matrices give, "
            "which has no law here"
        )
        return UNKNOWN

    def _gate(self, entering: Node, inner: frozenset[Node]) -> tuple[Node, Node] | None:
        """The two tensors that are multiplied to make what enters the last matrix."""
        if not inner or len(inner) > 2:
            return None
        for node in self.graph.between(min(inner), entering):
            if node.op != "mul" or len(node.live_inputs) != 2:
                continue
            left, right = node.live_inputs
            if self.origins(left) | self.origins(right) != inner:
                continue
            if len(inner) == 1:
                (whole,) = inner
                if set(self._outputs(whole, left)) & set(self._outputs(whole, right)):
                    continue  # an activation that is written as a product
            elif self.origins(left) & self.origins(right):
                continue
            straight = [
                all(self._is_linear(n, side) for n in self.origins(side)) for side in (left, right)
            ]
            if not any(straight):
                continue  # two activations, neither of them a gate of the other
            return (right, left) if straight[0] else (left, right)
        return None

    def _times(self, product: Product) -> float:
        """The numbers that multiply what enters a product and what leaves it, within the branch.

        Those between two products belong to the first.
        """
        node, behind = product.node, 1.0
        for user, factor, _ in onward(self.graph, node):
            if node is self.end:
                break
            node, behind = user, factor
        return self._before(product) * abs(behind)

    def _before(self, product: Product) -> float:
        source, before = stripped(product.source, self.stops, self.norms, self.products)
        return 1.0 if source in self.products else abs(before)

    def _times_in_scores(self, role: str, product: Product, slot: Node) -> float:
        """The numbers that multiply a query or a key on its way into the softmax.

        Those of the scores themselves are the query's, and so is a number that both have, as
        torch's own attention multiplies both by k^(-1/4). A norm on queries or keys takes all
        before it away.
        """
        if self.core is None:
            return self._times(product)
        depends = self.graph.depends
        if any(depends(slot, end) and depends(end, product.node) for end in self.norms):
            return 1.0
        start, last = stripped(slot, self.norms, self.products)
        behind = self._times(product) * (1.0 if start is product.node else abs(last))
        query, key = (stripped(s, self.norms)[1] for s in (self.core.query, self.core.key))
        shared = abs(key) if math.isclose(abs(query), abs(key), rel_tol=1e-6) else 1.0
        return behind * (abs(self.core.times) * shared if role == "query" else 1 / shared)

    @property
    def scores(self) -> float:
        """What multiplies the scores behind their norms, relative to 1/√k; 1 without attention."""
        if self.core is None:
            return 1.0
        slots = (stripped(slot, self.norms)[1] for slot in (self.core.query, self.core.key))
        return math.prod(slots, start=self.core.times)


# ------------------------------------------------------------------------------- matrices


def matrix_of(
    role: str, product: Product, outputs: Sequence[int], times: float = 1.0, before: float = 1.0
) -> FoundMatrix:
    """These outputs of a product as a matrix, with the numbers that multiply it.

    Outputs may lie along several axes of their parameter, as heads do: all of them are all of the
    last axis, and a part of them is no block.
    """
    there = product.parameter.value.shape[product.axis]
    along = len(product.matrix) > there
    computed = product.offset is None or (along and len(outputs) < len(product.matrix))
    rows = range(there) if along else [o + (product.offset or 0) for o in outputs]
    squares = product.matrix[list(outputs)].detach().double().square()
    entries = float(squares.mean().sqrt())
    deviation = float(squares.std(correction=min(1, squares.numel() - 1)))
    spread = deviation / math.sqrt(squares.numel())  # of the mean square
    return FoundMatrix(
        product.name, role, product.axis,
        outputs=tuple(runs(rows)),
        fan_in=product.matrix.shape[1] // product.stacked, fan_out=len(outputs), bias=product.bias,
        whole=len(outputs) >= there or computed, computed=computed,
        entries=entries, spread=spread / (2 * entries) if entries else 0.0, times=times,
        before=before,
    )  # fmt: skip


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as half-open runs, as in 0, 1, 2, 6, 7 → (0, 3), (6, 8)."""
    ends: list[tuple[int, int]] = []
    for n in numbers:
        if ends and ends[-1][1] == n:
            ends[-1] = (ends[-1][0], n + 1)
        else:
            ends.append((n, n + 1))
    return ends
