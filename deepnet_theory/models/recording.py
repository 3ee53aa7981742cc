"""One forward pass as a graph: every operation of torch with its tensors, in order.

Operations are recorded beneath the modules (``aten``), where ``nn.Linear``, ``x @ W.T``, ``einsum``
and a packed projection are products of matrices, views and sums whatever code called them. The
pass runs in evaluation mode, without gradients and without fused Transformer kernels; the module
is left as it was.

``torch.export`` and ``fx`` would give the same operations, of code that they can trace: a dispatch
mode takes any eager code, Hugging Face's included, and its record can be run again in part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.reading import Line
from deepnet_theory.models.factory import Made, alone, evaluating, tensors

# operations whose line of code is kept, for sentences: to find it takes a walk over the frames
LOCATED = {f"aten::{op}{suffix}" for op in ("add", "sub", "rsub", "lerp", "addcmul", "mul", "mm",
           "addmm", "bmm", "convolution", "cat") for suffix in ("", "_")}  # fmt: skip
TORCH = str(Path(torch.__file__).parent)
MOST = 150_000  # operations of a pass: what each depends on is kept as a bit for each of the others


@dataclass(eq=False)
class Node:
    """One tensor: what made it, from what tensors, and what it was.

    ``live`` are the tensors that depend on the inputs of the forward pass; the others are
    parameters and what was made of them. ``name`` is that of a parameter. ``differentiable``: a
    gradient would pass from the tensor to its inputs, unlike through a choice or ``no_grad``.
    """

    index: int
    op: str
    value: Tensor
    function: Any = None
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    which: int | None = None  # of several tensors that the operation gives
    inputs: tuple[Node, ...] = ()
    live: bool = False
    differentiable: bool = False
    name: str | None = None
    line: Line | None = None  # of sums, products and what is put together

    @property
    def live_inputs(self) -> list[Node]:
        """The inputs that depend on those of the forward pass."""
        return [node for node in self.inputs if node.live]

    @property
    def number(self) -> float | None:
        """The plain number beside a tensor in a product or quotient; None where there is none."""
        numbers = [a for a in self.args if isinstance(a, int | float)]
        return float(numbers[0]) if numbers and self.op in ("mul", "div") else None

    @property
    def rms(self) -> float:
        """The root mean square of the tensor's entries."""
        return float(self.value.detach().float().square().mean().sqrt())

    @property
    def parameters(self) -> list[Node]:
        """The parameters that the tensor is made of, as its operations name them from the left."""
        made_of = walk(self, lambda node: () if node.name else reversed(node.inputs))
        return [node for node in made_of if node.name is not None]

    def __lt__(self, other: Node) -> bool:  # sorted in the order of their making
        return self.index < other.index

    def __repr__(self) -> str:
        return f"{self.index}:{self.op}{tuple(self.value.shape)}"


@dataclass
class Graph:
    """The nodes in the order of their making; an input comes before what it enters."""

    nodes: list[Node]
    outputs: list[Node]

    @cached_property
    def ancestors(self) -> list[int]:
        """By index, the set of a node and all that it depends on, as bits."""
        ancestors: list[int] = []
        for node in self.nodes:
            bits = 1 << node.index
            for source in node.inputs:
                bits |= ancestors[source.index]
            ancestors.append(bits)
        return ancestors

    @cached_property
    def reached(self) -> int:
        """What the outputs depend on, as bits."""
        bits = 0
        for node in self.outputs:
            bits |= self.ancestors[node.index]
        return bits

    @cached_property
    def learning(self) -> int:
        """What a gradient of the outputs reaches, as bits; all, where it reaches no parameter.

        Somebody's whole forward pass may be written without gradients.
        """
        bits = sum(1 << index for index in {node.index for node in self.outputs})
        for node in reversed(self.nodes):
            if node.differentiable and bits >> node.index & 1:
                for source in node.inputs:
                    bits |= 1 << source.index
        if any(node.name is not None and bits >> node.index & 1 for node in self.nodes):
            return bits
        return (1 << len(self.nodes)) - 1

    @cached_property
    def users(self) -> list[list[Node]]:
        """By index, the nodes that the outputs depend on and that take this one."""
        users: list[list[Node]] = [[] for _ in self.nodes]
        for node in self.nodes:
            if self.is_used(node):
                for source in dict.fromkeys(node.inputs):
                    users[source.index].append(node)
        return users

    def is_used(self, node: Node) -> bool:
        """Whether an output depends on a node."""
        return bool(self.reached >> node.index & 1)

    def learns(self, node: Node) -> bool:
        """Whether a gradient of an output reaches a node."""
        return bool(self.learning >> node.index & 1)

    def only_user(self, node: Node) -> Node | None:
        """The node that alone takes this one, None where several do."""
        users = self.users[node.index]
        return users[0] if len(users) == 1 else None

    def depends(self, node: Node, on: Node) -> bool:
        """Whether ``node`` is ``on``, or was made from ``on``."""
        return bool(self.ancestors[node.index] >> on.index & 1)

    def between(self, start: Node, end: Node) -> list[Node]:
        """What depends on ``start`` and enters ``end``, both included, in order."""
        bits = self.ancestors[end.index] >> start.index
        window = self.nodes[start.index : end.index + 1]
        return [n for n in window if bits >> (n.index - start.index) & 1 and self.depends(n, start)]

    def replay(self, end: Node, given: Mapping[Node, Tensor]) -> Tensor:
        """The value of ``end`` with other values for some nodes, the rest as recorded."""
        values: dict[Node, Tensor] = dict(given)
        calls: dict[int, Any] = {}
        first = min(node.index for node in given)
        for node in self.nodes[first : end.index + 1]:
            anew = any(source in values for source in node.inputs)
            if node in values or not anew or not self.depends(end, node):
                continue
            if node.function is None:
                raise InputError(f"the tensor {node} cannot be computed again: how is not recorded")

            def value(leaf: Any) -> Any:  # what was recorded is constant
                return values.get(leaf, leaf.value.detach()) if isinstance(leaf, Node) else leaf

            call = id(node.args)
            if call not in calls:
                args, keywords = _each(value, node.args), _each(value, node.keywords)
                schema = getattr(node.function, "_schema", None)
                if schema is not None and schema.is_mutable:  # of its own, not of what was recorded
                    args = (args[0].clone(), *args[1:])
                calls[call] = node.function(*args, **keywords)
            out = calls[call]
            values[node] = out if node.which is None else out[node.which]
        return values.get(end, end.value)


@dataclass(frozen=True)
class _Overwritten:
    """A view of memory as later writes to other views of it left it; the first is its own."""

    views: tuple[tuple[torch.Size, tuple[int, ...], int], ...]  # shape, stride, offset
    entries: int  # of the memory

    def __call__(self, *values: Tensor) -> Tensor:
        memory = values[0].new_zeros(self.entries)
        for view, value in zip(self.views, values, strict=True):
            memory.as_strided(*view).copy_(value)
        return memory.as_strided(*self.views[0])


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps every tensor alive, so that a place in memory names one tensor."""

    def __init__(self, names: dict[Any, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names, self.nodes = names, list[Node]()
        self.latest: dict[Any, Node] = {}  # by place in memory
        self.own: dict[int, Node] = {}  # by the tensor itself, which is kept alive
        self.views: dict[Node, Any] = {}  # shape, stride and offset when a tensor was made
        self.stored: dict[int, list[Node]] = {}  # by storage
        self.written: dict[int, list[Node]] = {}
        self.alive: list[Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; torch would import its compiler, for seconds, to say so."""
        return False

    def node(self, t: Tensor, live: bool = False) -> Node:
        """The node of a tensor; a tensor that no operation made is a source."""
        place = _place(t)
        node = self.latest.get(place)
        if node is not None and not node.differentiable:  # a view without gradients of this tensor
            node = self.own.get(id(t), node)
        if node is None:
            node = self.add(t, op="source", live=live, name=self.names.get(place))
        later = [w for w in self.written.get(_storage(t), ()) if w.index > node.index]
        if later:  # another view of its memory was written to
            parts = (node, *later)
            node = self.add(
                t, op="overwritten", function=self._overwritten(t, parts), args=parts, inputs=parts
            )
        return node

    def _overwritten(self, t: Tensor, parts: tuple[Node, ...]) -> _Overwritten | None:
        """How the parts make the tensor; None where memory is read as another type."""
        if any(part.value.dtype != t.dtype for part in parts):
            return None
        entries = t.untyped_storage().nbytes() // t.element_size()
        return _Overwritten(tuple(self.views[part] for part in parts), entries)

    def add(self, value: Tensor, view: bool = False, **made: Any) -> Node:
        """A new node; a ``view`` that is what a tensor is, as x.mT.mT, does not take its place."""
        if len(self.nodes) == MOST:
            raise InputError(
                f"the forward pass has more than {MOST:,} operations, and no more are read; give "
                "it fewer tokens or fewer layers"
            )
        made["live"] = made.get("live") or any(n.live for n in made.get("inputs", ()))
        smooth = value.is_floating_point() or value.is_complex()
        made["differentiable"] = smooth and made["op"] != "detach" and _has_gradients()
        node = Node(len(self.nodes), value=value, **made)
        self.nodes.append(node)
        self.alive.append(value)
        self.own[id(value)] = node
        known = self.latest.get(_place(value)) if view and node.differentiable else None
        if known is None or known.op == "detach":
            self.latest[_place(value)] = node
        self.views[node] = (value.shape, value.stride(), value.storage_offset())
        self.stored.setdefault(_storage(value), []).append(node)
        return node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, schema = kwargs or {}, func._schema
        sources: dict[Node, None] = {}

        def node(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            sources[source := self.node(leaf)] = None
            return source

        nodes, keywords = _each(node, args), _each(node, kwargs)
        written = set()  # storages
        if schema.is_mutable:
            given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
            changed = (a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write)
            targets = (given.get(name) for name in changed)
            written = {_storage(t) for t in targets if isinstance(t, Tensor)}
            for old in (old for storage in written for old in self.stored.get(storage, ())):
                old.value = old.value.clone()  # as it was before
        out = func(*args, **kwargs)
        inputs = tuple(sources)
        line = _line(sys._getframe(1)) if schema.name in LOCATED else None
        name, several = schema.name.split("::")[1].rstrip("_"), isinstance(out, tuple | list)
        if name in ("slice", "cat") and (
            whole := [n for n in inputs if n.value.shape == out.shape]
        ):
            name, inputs = "alias", tuple(whole)  # all is sliced, or put behind an empty cache
        if name == "masked_fill" and not args[1].any():  # nothing is masked
            name, inputs, func, nodes = "alias", inputs[:1], torch.ops.aten.alias.default, nodes[:1]
        for which, t in enumerate(out if several else [out]):
            if isinstance(t, Tensor) and t.numel():
                made = self.add(
                    t, op=name, function=func, args=nodes, keywords=keywords, inputs=inputs,
                    which=which if several else None, line=line, view=not written,
                )  # fmt: skip
                if _storage(t) in written:
                    self.written.setdefault(_storage(t), []).append(made)
        return out


def _has_gradients() -> bool:
    """Whether gradients are enabled, or given by an ``autograd.Function``, which disables them."""
    frame: FrameType | None = None if torch.is_grad_enabled() else sys._getframe(1)
    while frame is not None:
        if frame.f_code is torch.autograd.Function.apply.__func__.__code__:  # type: ignore[attr-defined]
            return True
        frame = frame.f_back
    return torch.is_grad_enabled()


def _line(frame: FrameType | None) -> Line | None:
    """The innermost frame that is neither torch's nor of this file."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file == __file__ or file.startswith(TORCH)):
            first = frame.f_locals.get(next(iter(frame.f_code.co_varnames), ""))  # self
            named = type(first).__name__ if isinstance(first, nn.Module) else frame.f_code.co_name
            return Line(file, frame.f_lineno, named)
        frame = frame.f_back
    return None


def _storage(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _place(t: Tensor) -> Any:
    return _storage(t), t.storage_offset(), tuple(t.shape), t.stride(), t.dtype


def walk(start: Node, onward: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """``start`` and all that is reached from it, each once; ``onward`` says where to go on."""
    seen, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        yield node
        for another in onward(node):
            if another not in seen:
                seen.add(another)
                waiting.append(another)


def _each(change: Callable[[Any], Any], given: Any) -> Any:
    """Arguments of an operation, however nested, with each changed; torch's own is slower."""
    if isinstance(given, (tuple, list)):
        return type(given)([_each(change, one) for one in given])
    if isinstance(given, dict):
        return {name: _each(change, one) for name, one in given.items()}
    return change(given)


def record(made: Made) -> Graph:
    """Record one forward pass of a module on its inputs."""
    module = getattr(made.module, "_orig_mod", made.module)  # a compiled one
    whole = Made(module, made.inputs, made.keywords)
    recorder = _Recorder({_place(p): name for name, p in module.named_parameters()})
    with _as_written(module):
        for t in made.tensors():
            recorder.node(t, live=True)
        try:
            with recorder:
                out = whole()
        except InputError:
            raise
        except Exception as error:  # somebody else's code fails in its own ways
            raise InputError(
                f"the forward pass of {type(module).__name__} cannot be recorded: "
                f"{type(error).__name__}: {error}"
            ) from error
        outputs = [recorder.node(t) for t in tensors(out)]
    if not any(node.live for node in outputs):
        raise InputError(f"the output of {type(module).__name__} does not depend on its inputs")
    return Graph(recorder.nodes, outputs)


@contextmanager
def _as_written(module: nn.Module) -> Iterator[None]:
    """Evaluation mode, the module's own code and not a fused or compiled one.

    Nothing asks for gradients, but they are enabled: so ``no_grad`` in that code is seen.
    """
    trained = [p for p in module.parameters() if p.requires_grad and p.is_leaf]
    with ExitStack() as stack:
        stack.enter_context(alone())
        fast = torch.backends.mha.get_fastpath_enabled()
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        stack.enter_context(evaluating(module))
        stack.enter_context(torch.enable_grad())
        for p in trained:
            stack.callback(p.requires_grad_, True)
            p.requires_grad_(False)
        if "torch._dynamo" in sys.modules:  # which takes seconds to import
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield
