"""The matrices of a branch by role, from what is done with their products.

Queries and keys meet in the scores and values are mixed by them; what the mixture enters is the
output. Without scores, what enters a nonlinearity is fc1 and what follows it fc2; where two
products are multiplied, the one that went through the nonlinearity is the gate. A packed matrix
is cut by derivatives: of its outputs, those that a query depends on are the query's.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import torch
from torch import Tensor

from deepnet_theory.models.norms import Norm
from deepnet_theory.models.recording import LAYOUT, Graph, Node
from deepnet_theory.models.sums import CHOICES, GROUPED, PRODUCTS, multiple, stripped
from deepnet_theory.runtime.branches import ACTIVATIONS
from deepnet_theory.spec.results.reading import UNKNOWN, Matrix


@dataclass(frozen=True)
class Product:
    """One product of a live tensor with a matrix of parameters.

    ``matrix`` is (out, in), as the product uses it; ``offset`` is the first of the parameter's
    outputs that it is made of, None where it is computed from the parameter. ``stacked`` matrices
    of one parameter stand side by side in it, (out, stacked·in).
    """

    node: Node
    source: Node
    matrix: Tensor
    parameter: Node
    axis: int
    offset: int | None
    bias: str | None
    stacked: int = 1


def product(graph: Graph, node: Node) -> Product | None:
    """The product that a node is; None for one of two live tensors, or of no parameter.

    Where neither is live, a table of positions enters a matrix, which stands on the right.
    """
    if node.op not in PRODUCTS:
        return None
    operands = [a for a in node.args if isinstance(a, Node)]
    vector: Node | None = None
    if node.op in GROUPED:
        operands = operands[:2]
    if node.op in ("addmm", "baddbmm"):
        vector, *operands = operands
    if node.op == "convolution":
        operands, vector = operands[:2], operands[2] if len(operands) > 2 else None
    if len(operands) != 2 or (operands[0].live and operands[1].live):
        return None
    source, weight = operands if operands[0].live or not operands[1].live else operands[::-1]
    if not weight.parameters:
        return None
    value = weight.value.detach()
    if node.op == "convolution":
        matrix = value.flatten(1)
    else:
        if value.dim() == 3 and len(value) > 1:
            return _stacked(node, source, weight, value if operands[1] is source else value.mT)
        value = value[0] if value.dim() == 3 else value
        if value.dim() != 2:
            return None
        matrix = value if operands[1] is source else value.T
    parameter = weight.parameters[0]
    axis, offset = _place(matrix, parameter.value)
    if offset is None and not _is_copy(weight):
        return Product(node, source, matrix, parameter, axis, None, None)
    bias = vector.name if vector is not None else _added(graph, node)
    return Product(node, source, matrix, parameter, axis, offset or 0, bias)


def _stacked(node: Node, source: Node, weight: Node, each: Tensor) -> Product | None:
    """A product with one matrix, (out, in), of each group of rows; they are one parameter."""
    parameter = weight.parameters[0]
    if parameter.value.dim() != 3 or not _is_copy(weight):
        return None
    axis, offset = _place(each[0], parameter.value[0])
    beside = each.movedim(0, 1).flatten(1)
    return Product(node, source, beside, parameter, axis + 1, offset, None, len(each))


def _place(matrix: Tensor, parameter: Tensor) -> tuple[int, int | None]:
    """The axis of the outputs in the parameter and the first of them, by place in memory."""
    if parameter.dim() < 2:
        return 0, None
    last = parameter.dim() - 1
    axis = last if matrix.shape[0] != parameter.shape[0] and matrix.stride(0) == 1 else 0
    if matrix.stride(0) == 1 and matrix.stride(1) != 1:
        axis = last
    if matrix.untyped_storage().data_ptr() != parameter.untyped_storage().data_ptr():
        return axis, None
    start = matrix.storage_offset() - parameter.storage_offset()
    step = parameter.stride(axis)
    return (axis, start // step) if start % step == 0 else (axis, None)


def _is_copy(weight: Node) -> bool:
    """Whether a matrix is its whole parameter in another layout or type."""
    while weight.name is None and weight.op in LAYOUT and len(weight.inputs) == 1:
        (weight,) = weight.inputs
    return weight.name is not None


def _added(graph: Graph, node: Node) -> str | None:
    """The parameter that is added to a product, and to nothing else before it."""
    while (user := graph.only_user(node)) is not None:
        if user.op == "add":
            return next((n.name for n in user.inputs if n.name is not None), None)
        if user.op not in LAYOUT:
            return None
        node = user
    return None


FUSED = "scaled_dot_product"
LINEAR = LAYOUT | {
    "add", "sub", "mul", "div", "neg", "slice", "select", "split", "split_with_sizes", "chunk",
}  # fmt: skip


def is_linear(node: Node) -> bool:
    """Whether a node is a sum, a part or a multiple of what depends on the input."""
    return node.op in LINEAR and (node.op not in ("mul", "div") or len(node.live_inputs) == 1)


def _drawn(like: Node, generator: torch.Generator) -> Tensor:
    """Normal values in a node's own layout, which views rely on."""
    drawn = torch.empty_like(like.value)
    return drawn.copy_(torch.empty(like.value.shape).normal_(generator=generator))


def _index(node: Node) -> int:
    return node.index


def _factors(node: Node) -> list[Node]:
    """The two tensors that a product multiplies."""
    return [a for a in node.args if isinstance(a, Node)][-2:]


def outputs_of(graph: Graph, product: Product, end: Node) -> list[int]:
    """The outputs of a product that ``end`` depends on."""
    start = product.node
    left = _factors(start)[0] is product.source or start.op in GROUPED
    axis = 1 if start.op == "convolution" else -1 if left else -2
    generator = torch.Generator().manual_seed(0)
    drawn = _drawn(start, generator)
    used = torch.zeros(drawn.shape[axis], dtype=torch.bool, device=drawn.device)
    for x in (drawn, -drawn):  # of x and -x, an activation lets one pass
        with torch.enable_grad():
            leaf = x.clone().requires_grad_()
            found = graph.replay(end, {start: leaf})
            if not found.requires_grad:  # only which entries are chosen depends on it
                continue
            weights = torch.empty(found.shape).normal_(generator=generator).to(found)
            (gradient,) = torch.autograd.grad((found * weights).sum(), leaf, materialize_grads=True)
        used |= gradient.movedim(axis, 0).flatten(1).ne(0).any(1)
    return used.nonzero().flatten().tolist()


@dataclass(frozen=True)
class Core:
    """Where values are mixed: ``scores`` of ``query`` and ``key`` times ``value``.

    ``positions`` are tables that no input is seen in, each with the role that it has in scores of
    its own.
    """

    node: Node
    query: Node
    key: Node
    value: Node
    positions: tuple[tuple[str, Node], ...] = ()


class Branch:
    """What lies between the stream and the end of one branch.

    ``kind`` and ``matrices`` are those of the sublayer; ``causal`` is None without self-attention.
    """

    def __init__(
        self, graph: Graph, products: Mapping[Node, Product], norms: Mapping[Node, Norm],
        stops: Collection[Node], stream: Node, end: Node,
    ) -> None:  # fmt: skip
        self.graph, self.norms, self.end = graph, norms, end
        self.stops = frozenset(stops)
        self.nodes = self._nodes()
        own = {n: products[n] for n in self.nodes if n in products}
        chooses = any(n.op in CHOICES for n in self.nodes)  # else stacked matrices are no experts
        self.products = {n: p for n, p in own.items() if chooses or p.stacked == 1}
        self.bilinear = {
            n for n in self.nodes
            if (n.op in PRODUCTS and n not in self.products) or (FUSED in n.op and not n.which)
        }  # fmt: skip
        self.notes: list[str] = []
        self.because, self.gating = "", set[Node]()
        self.origins = cache(self._origins)
        self.roles: list[tuple[Product, Matrix]] = []
        self.beside: set[Node] = set()  # what enters attention's output beside its mixture
        self.causal: bool | None = None
        if self.core is None and (choice := self._choice()) is not None:
            self.kind = self._experts(*choice)
        elif self.core is None:
            self.kind = self._opened() if self.gates else self._feed_forward()
        else:
            self.kind = self._attention(self.core, stream)
            if self.kind.startswith("attention"):
                self.causal = self._is_causal(self.core)
            if self.gates or self.beside:  # the gate has no law, whatever it multiplies
                self.kind, self.roles = UNKNOWN, []
        # products that see another input than the branch's own: of cross-attention, and of scores
        aside = ("query", "key", "value" if self.kind == "cross" else "")
        self.foreign = [p.node for p, m in self.roles
                        if m.role not in aside and not graph.depends(p.node, stream)]  # fmt: skip
        if self.foreign:
            self.kind, self.roles = UNKNOWN, []
        known = {product.node for product, _ in self.roles}
        others = (product for node, product in self.products.items() if node not in known)
        self.matrices = (
            *(m for _, m in self.roles),
            *(matrix_of(UNKNOWN, p, range(p.matrix.shape[0])) for p in others),
        )

    def _nodes(self) -> list[Node]:
        found: dict[Node, None] = {}
        waiting = [self.end]
        while waiting:
            node = waiting.pop()
            if node not in found and node not in self.stops and node.live:
                found[node] = None
                waiting += node.inputs
        return sorted(found, key=lambda n: n.index)

    def _origins(self, node: Node) -> frozenset[Node]:
        """The products that a node is directly made of, of two live tensors or with a matrix."""
        found, seen, waiting = set(), set(), [node]
        while waiting:
            n = waiting.pop()
            if n in seen or n in self.stops or not n.live:
                continue
            seen.add(n)
            if n in self.products or n in self.bilinear:
                found.add(n)
            else:
                waiting += n.inputs
        return frozenset(found)

    def _is_linear(self, start: Node, end: Node) -> bool:
        """Whether a product becomes ``end`` by sums and multiples alone."""
        return all(map(is_linear, self.graph.between(start, end)[1:]))

    def _outputs(self, start: Node, end: Node) -> list[int]:
        return outputs_of(self.graph, self.products[start], end)

    @property
    def activation(self) -> str:
        """What stands between fc1 and fc2: of the activations built here the one most like it."""
        of = {m.role: p for p, m in reversed(self.roles)}
        if not {"fc1", "fc2"} <= of.keys():
            return ""
        x = _drawn(of["fc1"].node, torch.Generator().manual_seed(0))
        y = self.graph.replay(of["fc2"].source, {of["fc1"].node: x}).flatten()
        if len(y) != x.numel():
            return ""
        pairs = {name: torch.stack([y, phi(x).flatten()]) for name, phi in ACTIVATIONS.items()}
        return max(pairs, key=lambda name: float(torch.corrcoef(pairs[name])[0, 1]))

    @cached_property
    def core(self) -> Core | None:
        """The one attention of the branch, None where there is none."""
        found = []
        for node in self.nodes:
            if node not in self.bilinear:
                continue
            if FUSED in node.op:
                found.append(Core(node, *node.args[:3]))
                continue
            left, right = _factors(node)
            ways = (self._mixture(node, *way) for way in ((left, right), (right, left)))
            found += [core for core in ways if core is not None][:1]
        if len(found) > 1:
            self.notes.append("several attentions in one branch")
        return found[0] if len(found) == 1 else None

    def _mixture(self, node: Node, weights: Node, value: Node) -> Core | None:
        """The attention that a product is; None where its weights are no scores of query and key.

        Beside them there may be scores of either with a table of positions.
        """
        inner = [n for n in self.origins(weights) if n in self.bilinear]
        both = [n for n in inner if FUSED not in n.op and all(f.live for f in _factors(n))]
        if len(both) != 1 or any(FUSED in n.op for n in inner):
            return None
        query, key = _factors(both[0])
        positions = []
        for n in sorted(inner, key=_index):
            if n is not both[0]:
                (moving,) = (f for f in _factors(n) if f.live)
                (table,) = (f for f in _factors(n) if not f.live)
                of = [r for r, slot in (("key", query), ("query", key))
                      if self._made_of(moving) <= self._made_of(slot)]  # fmt: skip
                if not of:
                    return None
                positions.append((of[0], table))
        return Core(node, query, key, value, tuple(positions))

    def _made_of(self, node: Node) -> set[tuple[Node, int]]:
        """The products, each with its outputs, that a node is made of."""
        of = self.origins(node)
        return {(n, o) for n in of & self.products.keys() for o in self._outputs(n, node)} | {
            (n, 0) for n in of - self.products.keys()
        }

    def _is_causal(self, core: Core) -> bool:
        """Whether the first token's mixture feels no other token's value."""
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
                gate = both[0] if aside or not straight else both[1]
                return tuple(sorted(gate & self.products.keys(), key=lambda n: n.index))
            if len(live) != 1 or (multiple(node) is None and node.op not in ("add", "sub")):
                return ()
            node = live[0]
        return ()

    @cached_property
    def convolutions(self) -> list[Node]:
        """The products whose matrix reaches further than one token."""
        shapes = {n: p.parameter.value.shape for n, p in self.products.items()}
        return [n for n, s in shapes.items() if n.op == "convolution" and math.prod(s[2:]) > 1]

    def why(self) -> str:
        """What was seen that leaves matrices of the branch without a role, where it is known."""
        if self.because:
            return self.because
        known = {product.parameter for product, _ in self.roles}
        without = [n for n in self.products if self.products[n].parameter not in known]
        if not without:
            return ""
        if self.foreign:
            return (
                f"values computed with {self._names(self.foreign)} enter it, which do not see its "
                "input (a value residual, say): they have no law here"
            )
        if not self.roles and (router := self._router()) is not None:
            return (
                f"a router chooses experts ({self._names([router])}), whose branches are of no "
                "form that has a law here"
            )
        if self.gates:
            return (
                f"the branch is multiplied by values computed with {self._names(self.gates)}, "
                "which has no law here"
            )
        if self.beside:
            return (
                f"values computed with {self._names(self.beside)} enter its output matrix beside "
                "those that attention mixes, which has no law here"
            )
        if self.roles:
            return f"values computed with {self._names(without)} enter it"
        if self.bilinear:
            return f"activations are multiplied, and not as in attention ({self._names(without)})"
        if self.convolutions:
            of = self._names(self.convolutions)
            return f"tokens are mixed by a convolution ({of}), which has no law here"
        return ""

    def _router(self) -> Node | None:
        """The product by whose size experts are chosen or weighed."""
        for node in self.nodes:
            made_of = self.origins(node) & self.products.keys()
            weighs = "softmax" in node.op and made_of & set(self.gates)
            if made_of and (weighs or node.op in CHOICES):
                return min(made_of, key=lambda n: n.index)
        return None

    def _names(self, nodes: Collection[Node]) -> str:
        ordered = sorted(nodes, key=lambda n: n.index)
        names = list(dict.fromkeys(self.products[n].parameter.name for n in ordered))
        return f"{names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")

    def entered_from(self, node: Node) -> tuple[str, ...]:
        """The roles of the matrices that a node enters, with numbers and in another layout."""
        entered = (
            m.role for product, m in self.roles if stripped(product.source, self.norms)[0] is node
        )
        return tuple(dict.fromkeys(entered))

    def is_of_scores(self, node: Node) -> bool:
        """Whether a node enters the attention's query or key, and not its value."""
        if self.core is None:
            return False
        slots = (self.core.query, self.core.key, self.core.value)
        query, key, value = (self.graph.depends(slot, node) for slot in slots)
        return (query or key) and not value

    def _assign(self, role: str, nodes: Iterable[Node], end: Node) -> None:
        """A role for the products that ``end`` is made of, and for factors of these."""
        for node in sorted(nodes, key=lambda n: n.index):
            product = self.products.get(node)
            if product is None:
                self.notes.append(f"the {role} is made of a product of activations")
                continue
            factors = [n for n in self.origins(product.source) if n in self.products]
            low_rank = [n for n in factors if self._is_linear(n, product.source)]
            for n, into in ((node, end), *((n, product.source) for n in low_rank)):
                if outputs := self._outputs(n, into):  # else a gate of zeros lets nothing pass
                    # what multiplies a query or a key belongs to the scores
                    times = 1.0 if role in ("query", "key") else self._times(self.products[n])
                    matrix = matrix_of(role, self.products[n], outputs, bool(low_rank), times)
                    self.roles.append((self.products[n], matrix))

    def _attention(self, core: Core, stream: Node) -> str:
        for role, slot in (("query", core.query), ("key", core.key), ("value", core.value)):
            self._assign(role, self.origins(slot), slot)
        for role, table in core.positions:
            self._of_positions(role, table)
        after = [n for n in self.products if core.node in self.origins(self.products[n].source)]
        for node in after:
            beside = self.origins(self.products[node].source) - {core.node}
            self.beside |= beside & self.products.keys()
            if not beside <= self.products.keys():
                self.notes.append("the gate is made of a product of activations")
            if self.end is node or node in self.origins(self.end):
                self._assign("output", [node], self.end)
            else:  # the first factor of a low-rank output
                for last in self.origins(self.end) & self.products.keys():
                    if node in self.origins(self.products[last].source):
                        self._assign("output", [last], self.end)
        latent = self._compress()
        keys = [product for product, m in self.roles if m.role == "key"]
        if not keys:  # experts whose matrices a router chooses
            self.roles = []
            return UNKNOWN
        reads = any(self.graph.depends(p.source, stream) for p in keys)
        if not latent and reads and self._gated(core, after):
            return "attention-gated"
        return "attention-latent" if latent and reads else "attention" if reads else "cross"

    def _gated(self, core: Core, after: Sequence[Node]) -> bool:
        """Whether one bounded gate of the branch's input multiplies what enters the output."""
        if len(self.beside) != 1 or len(after) != 1:
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
            of, last_map = self.products[made], [m.role for _, m in self.roles].index("output")
            gating = matrix_of("gate", of, self._outputs(made, gate))
            self.roles.insert(last_map, (of, gating))
            self.beside = set()
        return opens

    def _of_positions(self, role: str, table: Node) -> None:
        """The matrix that a table of positions enters, where it is no query's or key's own."""
        known = {p.parameter for p, _ in self.roles}
        waiting = [table]
        while waiting:
            node = waiting.pop()
            if (of := product(self.graph, node)) is None:
                waiting += node.inputs
            elif of.parameter not in known:
                self.roles.append((of, matrix_of(role, of, range(len(of.matrix)))))

    def _compress(self) -> bool:
        """Take latent vectors, which a norm divides before queries, keys or values are made.

        A product may give a part of the keys beside them: its other outputs stay the key's.
        """
        found: dict[Product, list[int]] = {}
        for source in {p.source for p, m in self.roles if m.role in ("query", "key", "value")}:
            norm = self.norms.get(stripped(source, self.norms)[0])
            for node in () if norm is None else self.origins(norm.start) & self.products.keys():
                assert norm is not None
                found[self.products[node]] = self._outputs(node, norm.start)
        kept = []
        for p, m in self.roles:
            taken = {o + (p.offset or 0) for o in found.get(p, ())}
            rest = [o - (p.offset or 0) for run in m.outputs for o in range(*run) if o not in taken]
            kept += [(p, matrix_of(m.role, p, rest) if taken else m)] * bool(rest)
        latent = [(p, matrix_of("latent", p, outputs)) for p, outputs in found.items() if outputs]
        self.roles = [*latent, *kept]
        return bool(latent)

    def _feed_forward(self) -> str:
        last = [n for n in self.origins(self.end) if n in self.products]
        alone = len(last) == 1 and not (self.bilinear or self.convolutions)
        return self._maps(last[0]) if alone else UNKNOWN

    def _opened(self) -> str:
        """A gated feed-forward times one number a token, such as a shared expert's gate."""
        last = sorted(self.origins(self.end) & self.products.keys() - {*self.gates}, key=_index)
        one = len(self.gates) == 1 and len(self.products[self.gates[0]].matrix) == 1
        if not one or len(last) != 1 or self.bilinear or self._maps(last[0]) != "ffn-swiglu":
            self.roles = []
            return UNKNOWN
        of = self.products[self.gates[0]]
        self.roles.insert(0, (of, matrix_of("router", of, [0])))
        return "ffn-swiglu-gated"

    def _choice(self) -> tuple[Node, int, int] | None:
        """The product of a router, how many experts it chooses for a token, and of how many."""
        for node in (n for n in reversed(self.nodes) if n.op in CHOICES):
            scores = node.args[0]
            found = [n for n in self.origins(scores) if n in self.products]
            experts = scores.value.shape[-1]
            if len(found) == 1 and len(self.products[found[0]].matrix) == experts > 1:
                return found[0], node.value.shape[-1] if node.op == "topk" else 1, experts
        return None

    def _experts(self, router: Node, chosen: int, experts: int) -> str:
        """k of E feed-forwards weighed by gates, stacked in one parameter or one by one."""
        last = sorted(self.origins(self.end) & self.products.keys() - {router}, key=_index)
        kinds = {self._maps(down) for down in last}
        entered = [p for p, m in self.roles if m.role in ("fc1", "gate")]
        if any(self._outputs(router, p.source) for p in entered):
            self.because = (
                f"the gates of experts multiply what enters them ({self._names([router])}), and "
                "not what leaves them, which has no law here"
            )
        if len(kinds) != 1 or UNKNOWN in kinds or self.because:
            self.roles = []
            return UNKNOWN
        felt = {p.node for p, _ in self.roles}  # the output does not feel one that no token chose
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
        # what the gates of a token add up to: a number that multiplies what leaves the experts
        ones, none = (
            self.graph.replay(self.end, {n: torch.full_like(n.value, v) for n in last})
            for v in (1.0, 0.0)
        )
        total = abs(float((ones - none).mean()))
        for place, (product, m) in enumerate(self.roles):
            if product.node in last:
                size, times, error = m.size * total, m.times * total, m.error * total
                self.roles[place] = product, replace(m, size=size, times=times, error=error)
        of = self.products[router]
        self.roles.insert(0, (of, matrix_of("router", of, range(experts))))
        (kind,) = kinds
        return f"{kind}@{chosen}/{experts}"

    def _maps(self, down: Node) -> str:
        """The roles of a feed-forward that ends in a product, and its kind."""
        entering = self.products[down].source
        factors = self.origins(entering)
        if len(factors) == 1 and self._is_linear(next(iter(factors)), entering):
            entering = self.products[next(iter(factors))].source  # fc2 is of low rank
        inner = self.origins(entering)
        if gated := self._gate(entering, inner):
            gate, up = gated
            self._assign("gate", self.origins(gate), gate)
            self._assign("up", self.origins(up), up)
            self._assign("down", [down], self.end)
            return "ffn-swiglu"
        if len(inner) == 1:
            self._assign("fc1", inner, entering)
            self._assign("fc2", [down], self.end)
            return "ffn"
        return UNKNOWN

    def _gate(self, entering: Node, inner: frozenset[Node]) -> tuple[Node, Node] | None:
        """The two tensors that are multiplied to make what enters the last matrix."""
        if not inner or len(inner) > 2:
            return None
        for node in self.graph.between(min(inner, key=lambda n: n.index), entering):
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
        """The numbers that multiply what enters a product and what leaves it, within the branch."""
        _, times = stripped(product.source, self.stops, self.norms)
        node = product.node
        while node is not self.end and (user := self.graph.only_user(node)) is not None:
            if (of := multiple(user)) is None:
                break
            node, times = user, times * of[1]
        return abs(times)


def matrix_of(
    role: str, product: Product, outputs: Sequence[int], factor: bool = False, times: float = 1.0
) -> Matrix:
    """These outputs of a product as a matrix, its size with the numbers that multiply it."""
    every = product.parameter.value.shape[product.axis]
    squares = product.matrix[list(outputs)].detach().double().square()
    fan_in = product.matrix.shape[1] // product.stacked
    size = float(squares.mean().sqrt()) * times
    deviation = float(squares.std(correction=min(1, squares.numel() - 1))) * times**2
    spread = deviation / math.sqrt(squares.numel())  # of the mean square
    return Matrix(
        product.parameter.name or "", role, product.axis,
        outputs=_runs([o + (product.offset or 0) for o in outputs]),
        fan_in=fan_in, fan_out=len(outputs), bias=product.bias,
        whole=len(outputs) >= every or product.offset is None,
        factor=factor, computed=product.offset is None,
        size=size, times=times, error=spread / (2 * size) if size else 0.0,
    )  # fmt: skip


def _runs(outputs: list[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as half-open runs, as in 0, 1, 2, 6, 7 → (0, 3), (6, 8)."""
    runs: list[tuple[int, int]] = []
    for o in outputs:
        if runs and runs[-1][1] == o:
            runs[-1] = (runs[-1][0], o + 1)
        else:
            runs.append((o, o + 1))
    return tuple(runs)
