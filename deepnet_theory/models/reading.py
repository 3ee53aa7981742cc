"""From a recorded forward pass to a :class:`~deepnet_theory.definitions.reading.Reading`.

A part is known by what it does, and candidates are computed again on other numbers before they are
believed. No name of a module or parameter says what it is, since names lie: a block with the names
of a pre-LN one computed post-LN. They only tell where a layer begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase

import torch
from torch import nn

from deepnet_theory.definitions.outcome import InputError, unknown
from deepnet_theory.definitions.reading import UNKNOWN, FoundMatrix, FoundSublayer, Reading
from deepnet_theory.definitions.sublayer import SUBLAYERS
from deepnet_theory.models.branches import BranchReader, Parts
from deepnet_theory.models.factory import Made, made
from deepnet_theory.models.operations import LAYOUT, SUMS, TOKENS, as_product, bare, stripped
from deepnet_theory.models.outer import logits_of, tables_of
from deepnet_theory.models.recording import Graph, Node, record
from deepnet_theory.models.sums import RecordedNorm, ResidualSum, Sums, norms
from deepnet_theory.processes.jobs import Progress, silent
from deepnet_theory.runtime.machine import threads


def read(
    model: nn.Module | Made,
    inputs: object = None,
    roles: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Reading:
    """What one forward pass of a model shows: its residual stacks, sublayer by sublayer.

    ``inputs`` are a tensor, a tuple or a mapping; without them tokens or vectors are tried. The
    model is left as it was. ``roles`` say what was not understood, by patterns of names:
    ``{"value": "*.v_proj.weight"}``. ``progress`` receives the sublayers read, their number and
    what is read. Raises :class:`InputError` for what cannot be run, and where
    there is no residual stream.
    """
    with threads(1):  # the tensors are small: a second thread only waits
        own_code = getattr(model, "_orig_mod", model)  # a compiled model's
        whole = own_code if isinstance(own_code, Made) else made(own_code, inputs)
        reading = Reader(record(whole), whole.module, progress or silent).reading()
    return with_roles(reading, roles) if roles else reading


def with_roles(reading: Reading, roles: Mapping[str, str]) -> Reading:
    """The reading; a matrix without a role takes the one whose pattern its name fits."""
    valid = {m.name for s in SUBLAYERS.values() for m in s.matrices}
    unused = dict(roles)

    def named(m: FoundMatrix) -> FoundMatrix:
        for role, pattern in roles.items():
            if m.role == UNKNOWN and fnmatchcase(m.name, pattern):
                unused.pop(role, None)
                return replace(m, role=role)
        return m

    def of_kind(s: FoundSublayer) -> FoundSublayer:
        """The kind whose matrices these are, where the branch had none."""
        s = replace(s, matrices=tuple(named(m) for m in s.matrices))
        given = {m.role for m in s.matrices}
        s = s if UNKNOWN in given else replace(s, why="")
        kinds = [k for k, v in SUBLAYERS.items() if {m.name for m in v.matrices} == given]
        return replace(s, kind=kinds[0]) if s.kind == UNKNOWN and kinds else s

    for role in roles:
        if role not in valid:
            raise unknown("role", role, sorted(valid))
    stacks = [_in_layers([*map(of_kind, row)]) for row in reading.stacks.values()]
    for role, pattern in unused.items():
        raise InputError(f"no matrix without a role fits {pattern!r}, which is to be {role}")
    return replace(reading, sublayers=tuple(s for row in stacks for s in row))


class Reader:
    """The parts of a graph, put together."""

    def __init__(self, graph: Graph, module: nn.Module, progress: Progress = silent) -> None:
        self.graph, self.module, self.progress = graph, module, progress
        self.norms = norms(graph)
        self.sums, skips = Sums(graph, self.norms).residual()
        products = ((node, as_product(graph, node)) for node in graph.nodes if node.live)
        self.products = {node: known for node, known in products if known is not None}
        if not self.sums:
            raise InputError(
                f"{type(module).__name__} has no residual stream: no sum of the form x + G(x) with "
                "a matrix in G was found in its forward pass"
            )
        self.by_node = {s.node: s for s in self.sums}
        self.broken: list[str] = []  # where a stream is no chain of residual sums
        self.stops = {node for s in self.sums for node in (s.node, s.stream.node)}
        self.parts = Parts(graph, self.products, self.norms, self.stops)
        # two values or scores of several layers may add up too, which is a matter of their branch
        carried = {stripped(skip.stream.node, self.norms)[0] for skip in skips}
        self.skips = {skip.node: skip for skip in skips
                      if skip.node in carried or not self._is_within(skip.node)}  # fmt: skip
        self.placed: set[RecordedNorm] = set()  # the norms that are a sublayer's
        self.vectors = {name for norm in self.norms.values() for name in (norm.gain, norm.bias)}
        self.notes: list[str] = []

    def reading(self) -> Reading:
        """The whole."""
        chains = self.chains()
        stacks = [self._stack(chain) for chain in chains]
        self.broken += self._breaks(chains)
        names = _names(stacks)
        starts, last = [chain[0].stream.node for chain in chains], chains[-1][-1].node
        ends = {chain[-1].node for chain in chains}
        outer = [n for n in self.norms.values() if n not in self.placed]
        tables = [
            table for name, node in zip(names, starts, strict=True)
            for table in tables_of(self.norms[node].start if node in self.norms else node, name)
        ]  # fmt: skip
        heads = (p for p in self.products.values() if self.graph.depends(p.source, last))
        skips = (*dict.fromkeys(self.broken), *self._skip_sentences())
        logits = logits_of(self.parts, last, tables, [n for n in starts if n not in self.norms])
        return Reading(
            sublayers=tuple(
                replace(s, stack=name)
                for name, (row, _) in zip(names, stacks, strict=True) for s in row
            ),
            norms=tuple(
                n.placed("start" if n.end in starts else "final")
                for n in outer if n.end in starts or self._sum_of(n.start) in ends
            ),
            stream={name: node.rms for name, node in zip(names, starts, strict=True)},
            embeddings=tuple(dict.fromkeys(n for s in starts for n in self._parameters(s))),
            head=tuple(dict.fromkeys(p.name for p in heads)),
            unused=self._unused(), skips=skips,
            notes=tuple(dict.fromkeys((*skips, *self.notes))), tables=tuple(tables), logits=logits,
        )  # fmt: skip

    def chains(self) -> list[list[ResidualSum]]:
        """The sums of each stack, in order."""
        stacks: list[list[ResidualSum]] = []
        ends: dict[Node, list[ResidualSum]] = {}
        for s in self.sums:
            stack = ends.pop(self._sum_of(s.stream.node), None)
            if stack is None:
                stacks.append(stack := [])
            stack.append(s)
            ends[s.node] = stack
        return stacks

    def _is_within(self, node: Node) -> bool:
        """Whether the next residual sum has a node in its branch alone."""
        after = next((s for s in self.sums if self.graph.depends(s.node, node)), None)
        return after is not None and not self.graph.depends(after.stream.node, node)

    def _sum_of(self, node: Node) -> Node:
        """The sum that a stream's term is, without what follows or cuts the sum.

        Norms and layout are taken off; a skip stands for the last sum before it, and tokens that
        are cut out or put together again for the last of the sums that they come from. A matrix
        between two stages is passed where a norm behind it starts the stream anew: what moved it
        before moves it as much, relative to its size, behind.
        """
        normed = merged = False
        while node.live and node not in self.by_node:
            if node in self.norms:
                node, normed = self.norms[node].start, True
            elif normed and node in self.products:
                node, merged = self.products[node].source, True
            elif node.op in LAYOUT:
                node = node.inputs[0]
            elif node in self.skips:
                before = (s.node for s in self.sums if self.graph.depends(node, s.node))
                node = max(before)
            elif node.op in TOKENS:
                ends = {self._sum_of(i) for i in node.live_inputs}
                sums = ends & self.by_node.keys()
                last = max(sums, default=node)
                several = merged and len(ends) > 1  # a skip that the matrix takes in
                if last is node or several or not all(self.graph.depends(last, n) for n in sums):
                    break
                node = last
            else:
                break
        return node

    def _stack(self, chain: list[ResidualSum]) -> tuple[list[FoundSublayer], bool]:
        """The sublayers of one stack in their layers, and whether all its attention is causal."""
        row: list[FoundSublayer] = []
        sees: list[bool] = []
        carried = 1.0
        for position, s in enumerate(chain):
            stream = s.stream.node
            place = self.sums.index(s)
            self.progress(place, len(self.sums), f"sublayer {place + 1} of {len(self.sums)}")
            following = chain[position + 1].stream.node if position + 1 < len(chain) else None
            terms = sorted(s.branches, key=lambda t: t.node)
            beside = [(t, BranchReader(self.parts, stream, t.node)) for t in terms]
            beside.sort(key=lambda read: read[1].kind)  # in whatever order the code adds them
            on_sum = self._on_sum(s, following, row, beside[0][1])
            self.broken += self._added_twice(s, [branch for _, branch in beside])
            for term, branch in beside:
                around = {**self._around(stream, branch), **on_sum}
                kind = self._with_norms(branch, around)
                self.placed |= around.keys()
                where = branch.matrices[0].name if branch.matrices else f"sublayer {len(row)}"
                self.notes += [f"{n}, in {where}" for n in branch.notes]
                sees += [] if branch.causal is None else [branch.causal]
                row.append(
                    FoundSublayer(
                        stack="", layer=0, kind=kind, sums=position,
                        stream=s.stream.coefficient, branch=term.coefficient,
                        norms=tuple(
                            n.placed(place, branch.entered_from(n.end))
                            for n, place in around.items()
                        ),
                        matrices=branch.matrices, learnt=term.learnt or s.stream.learnt,
                        biases=s.biases, carried=carried, why=branch.why(),
                        activation=branch.activation, scores=branch.scores,
                        line=s.node.line,
                    )
                )  # fmt: skip
            carried = 1.0 if on_sum else carried * s.stream.coefficient
        row = self._with_norm_of_start(chain[0].stream.node, row)
        return _in_layers(row), all(sees) if sees else self._is_causal(chain)

    def _is_causal(self, chain: list[ResidualSum]) -> bool:
        """Whether tokens depend on earlier tokens alone, where no attention says it."""
        start, end = chain[0].stream.node, chain[-1].node
        if start.value.dim() < 3 or start.value.shape[-2] < 2:
            return False
        early, late = start.value.clone(), start.value.clone()
        early[..., 0, :] += 1
        late[..., 1:, :] += 1
        with torch.no_grad(), suppress(InputError, RuntimeError):
            behind, before = (self.graph.replay(end, {start: x}) for x in (early, late))
            same = torch.isclose(before[..., 0, :], end.value[..., 0, :], rtol=1e-3, atol=1e-5)
            return bool(same.all()) and not torch.equal(behind[..., 1:, :], end.value[..., 1:, :])
        return False

    def _with_norm_of_start(self, start: Node, row: list[FoundSublayer]) -> list[FoundSublayer]:
        """A stack that starts at a norm needs none before its first branch, as all others have."""
        norm = self.norms.get(self._bare(start))
        without = [i for i, s in enumerate(row) if not s.around]
        if norm is None or without != [0] or {s.around for s in row[1:]} != {frozenset({"input"})}:
            return row
        first = replace(row[0], norms=(norm.placed("input"), *row[0].norms))
        return [first, *row[1:]]

    def _on_sum(
        self,
        s: ResidualSum,
        following: Node | None,
        before: list[FoundSublayer],
        branch: BranchReader,
    ) -> dict[RecordedNorm, str]:
        """The norm on a sum that alone carries the stream on."""
        on_it = [n for n in self.norms.values() if self._bare(n.start) is s.node]
        if following is not None:
            return {n: "sum" for n in on_it if n.end is self._bare(following)}
        normed = self._is_last_normed(s, on_it, before, branch)
        return dict.fromkeys(on_it[:1], "sum") if normed else {}

    def _is_last_normed(
        self,
        s: ResidualSum,
        on_it: list[RecordedNorm],
        before: list[FoundSublayer],
        branch: BranchReader,
    ) -> bool:
        """Whether the norm on a stack's last sum is that sum's, and not the final one.

        It is where another norm follows. Else the sum is like the one at its place in a layer
        before, like the last of its kind, those first whose branch has the same norms, or like the
        one before it; a lone one has it where no norm is elsewhere.
        """
        all_norms = self.norms.values()
        if any(self._bare(n.start) is norm.end for n in all_norms for norm in on_it):
            return True
        if not before:
            return not any(self._bare(n.start) is self._bare(s.stream.node) or n.end is b.node
                           for n in all_norms for b in s.branches)  # fmt: skip
        around = set(self._around(s.stream.node, branch).values()) & {"input", "output"}
        name = _template(branch.matrices[-1].name if branch.matrices else "")
        at_its_place = [b for b in before if _template(_last_matrix(b)) == name]
        of_its_kind = [b for b in before if b.kind == branch.kind]
        near = at_its_place, of_its_kind, before[-1:]
        alike = ([b for b in rows if b.around - {"sum"} == around] for rows in near[:2])
        like = next(rows for rows in (*alike, *near) if rows)[-1]
        return any(n.where == "sum" for n in like.norms)

    def _around(self, stream: Node, branch: BranchReader) -> dict[RecordedNorm, str]:
        """The norms before a branch, after it and within it."""
        places: dict[RecordedNorm, str] = {}
        inside = set(branch.nodes) - branch.gating
        # a number that multiplies the input of a norm changes nothing
        start = stripped(stream, self.norms)[0]
        for end, norm in self.norms.items():
            if end not in inside:
                continue
            if stripped(norm.start, self.norms)[0] is start:
                places[norm] = "input"
            elif self._bare(end) is self._bare(branch.end):
                places[norm] = "output"
            elif self.graph.depends(end, stream):
                places[norm] = "scores" if branch.is_of_scores(end) else "inside"
        return places

    def _with_norms(self, branch: BranchReader, around: dict[RecordedNorm, str]) -> str:
        """The kind of a branch with the norms inside it, which are then ``within`` that kind.

        Norms before the last matrix are Sub-LN's. Of others no kind is known, and they stay
        ``inside``.
        """
        inside = [n for n, place in around.items() if place == "inside"]
        plain = SUBLAYERS.get(branch.kind)
        if not inside or plain is None:
            return branch.kind
        entered = {branch.entered_from(n.end) for n in inside}
        kind = branch.kind
        if kind == "attention-latent":
            inside = [n for n in inside if "output" not in branch.entered_from(n.end)]
            around.update(dict.fromkeys(inside, "within"))
            return kind
        if entered == {plain.last_map[:1]}:
            kind = f"{branch.kind}-sub-ln"
        if kind == branch.kind or kind not in SUBLAYERS:
            return branch.kind
        around.update(dict.fromkeys(inside, "within"))
        return kind

    def _bare(self, node: Node) -> Node:
        return bare(node, self.norms)

    def _parameters(self, node: Node) -> list[str]:
        """What a stream starts from, without the vectors of a norm."""
        made_of = (n.name for n in self.graph.nodes if n.name and self.graph.depends(node, n))
        return [name for name in made_of if name not in self.vectors]

    def _breaks(self, chains: list[list[ResidualSum]]) -> Iterator[str]:
        """What parts a stack from the one that its stream comes from, or from the output."""
        for chain in chains:
            node = self._sum_of(chain[0].stream.node)
            if node not in self.by_node and any(
                self.graph.depends(node, s.node) for s in self.sums
            ):
                yield f"between two residual sums the stream {self._seen_in(node)}"
        last = chains[-1][-1].node
        ends = [n.end for n in self.norms.values() if n.start is last]
        for node in self.graph.users[last.index]:
            of_norm = any(self.graph.depends(end, node) for end in ends)
            if node.op in SUMS and len(node.live_inputs) > 1 and not of_norm | (node in self.skips):
                yield f"behind the last residual sum the stream {self._seen_in(node)}"

    def _seen_in(self, node: Node) -> str:
        """What a stream goes through that is no residual sum: module and line."""
        while node.line is None and len(node.live_inputs) == 1:
            (node,) = node.live_inputs
        seen, law = f"goes through {node.op}", "that has no law here"
        terms = [stripped(n, self.norms, self.stops)[0] for n in (node, *node.live_inputs)]
        if node in self.products:
            seen = f"goes through the matrix {self.products[node].name}"
            law = "where no norm starts it anew behind a matrix it has no law here"
        elif node.op == "cat":
            seen = "is put together with another tensor"
        elif any(n.op == "mul" and len(n.live_inputs) > 1 and n not in self.norms for n in terms):
            seen = "is multiplied by computed values (gates)"
        elif node.op in SUMS:
            last = [s.node for s in self.sums if self.graph.depends(node, s.node)][-1]
            early = [t for t in node.live_inputs if not self.graph.depends(t, last)]
            seen = "takes in a sum that has no matrix of parameters in its branch"
            if any(self.graph.depends(term, stop) for term in early for stop in self.stops):
                seen = "takes in a branch that starts at an earlier sublayer"
        return seen + (f", in {node.line}" if node.line else "") + f": {law}"

    def _added_twice(self, s: ResidualSum, branches: list[BranchReader]) -> list[str]:
        """Branches of one sum that end in the same matrix, as a part orthogonal to the stream."""
        known = [b for b in branches if b.kind != UNKNOWN]
        last = Counter(n for b in known for n in b.origins(b.end) & self.products.keys())
        twice = [self.products[n].name for n, times in last.items() if times > 1]
        at = f", in {s.node.line}" if s.node.line else ""
        return [f"what {name} gives enters one sum in several ways{at}: that has no law here"
                for name in twice]  # fmt: skip

    def _skip_sentences(self) -> tuple[str, ...]:
        """The skips past several sublayers, from where to where, each line of code once."""
        times = Counter(node.line for node in sorted(self.skips))
        lines = {node.line: self._sum_of(s.stream.node).line for node, s in self.skips.items()}
        return tuple(
            "a skip past several sublayers"
            + (f": {line.module} adds at {line.place} " if line else " adds ")
            + (f"what {lines[line]} gave" if lines[line] else "what the stream starts from")
            + (f", {count} times" if count > 1 else "")
            for line, count in times.items()
        )

    def _unused(self) -> tuple[str, ...]:
        """Parameters that no gradient of an output reaches."""
        reached = {n.name for n in self.graph.nodes if self.graph.learns(n)}
        return tuple(name for name, _ in self.module.named_parameters() if name not in reached)


def _in_layers(row: list[FoundSublayer]) -> list[FoundSublayer]:
    """Sublayers with the index of their layer."""
    layers = _by_module(row) or _by_pattern(row)
    return [replace(s, layer=layer) for s, layer in zip(row, layers, strict=True)]


def _by_module(row: list[FoundSublayer]) -> list[int] | None:
    """Layers by the numbered modules that hold several sublayers, as ``layers.3``.

    Of nested ones the innermost; None where each numbered module holds one sublayer. What is
    in no such module belongs to its neighbour; matrices that come again begin a layer.
    """
    nested = [_numbered(_last_matrix(s)) for s in row]
    whole = [{m.where for m in s.matrices} for s in row]
    for level in reversed(range(max(map(len, nested)))):
        if level and any(len(own) <= level for own in nested if own):
            continue
        paths = [own[level] if len(own) > level else "" for own in nested]
        kinds = Counter(_template(path) for path in paths if path)
        usual = max(kinds, key=lambda kind: kinds[kind])
        held = [path if _template(path) == usual else None for path in paths]
        # a sublayer that is used again is one that it holds, not two
        holding = {(path, *sorted(used)) for path, used in zip(held, whole, strict=True) if path}
        if max(Counter(path for path, *_ in holding).values()) < 2:
            continue
        now = next(filter(None, held))
        layer, seen, layers = 0, list[set[str]](), []
        for used, path in zip(whole, held, strict=True):
            if path is not None and (path != now or used in seen):
                layer, seen, now = layer + 1, [], path
            seen.append(used)
            layers.append(layer)
        return layers
    return None


def _by_pattern(row: list[FoundSublayer]) -> list[int]:
    """Layers by the shortest pattern of sublayers that repeats; else each that comes again."""
    signs = [(s.kind, _template(_last_matrix(s))) for s in row]
    for period in range(1, len(signs)):
        if len(signs) % period == 0 and signs == signs[:period] * (len(signs) // period):
            return [i // period for i in range(len(signs))]
    layer, seen, layers = 0, set[tuple[str, str]](), []
    for sign in signs:
        if sign in seen:
            layer, seen = layer + 1, set()
        seen.add(sign)
        layers.append(layer)
    return layers


def _last_matrix(s: FoundSublayer) -> str:
    """The matrix that a branch ends in; the first may be one that many branches take."""
    return s.matrices[-1].name if s.matrices else ""


def _numbered(name: str) -> list[str]:
    """The paths in a parameter's name that end in a number, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i, part in enumerate(parts) if part.isdigit()]


def _template(name: str) -> str:
    return ".".join("#" if part.isdigit() else part for part in name.split("."))


def _names(stacks: list[tuple[list[FoundSublayer], bool]]) -> list[str]:
    """Encoder and decoder, by who crosses to whom; more stacks are numbered."""
    crosses = [any(s.kind == "cross" for s in row) for row, _ in stacks]
    if crosses == [False, True]:
        return ["encoder", "decoder"]
    names = ["decoder" if causal else "encoder" for _, causal in stacks]
    counts = Counter(names)
    return [f"{n} {i + 1}" if counts[n] > 1 else n for i, n in enumerate(names)]
