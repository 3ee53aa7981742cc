"""A model of your own: ``FILE.py:FACTORY`` or ``package.module:FACTORY``, and its inputs.

This runs the code that the user names. What it prints goes to standard error, and each
failure ends in one sentence.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from deepnet_theory.definitions.files import require_file
from deepnet_theory.definitions.outcome import InputError, guess, shown
from deepnet_theory.processes.keep import sources

DEPTH = 12  # what a factory that asks for a depth is given where none was
WIDE_DEPTH = 2  # and where widths alone are compared
NO_DEPTHS = {"vocab", "vocab_size", "n_vocab", "num_tokens", "d_model", "config"}
DEPTHS = {"depth", "layers", "n_layer", "n_layers", "num_layers"}  # what no width is called
BATCH, TOKENS = 2, 16  # of inputs that the user did not give
FORM = "FILE.py:FACTORY or package.module:FACTORY"


@dataclass(frozen=True)
class Made:
    """A module with the inputs of its forward pass; ``batches`` gives those of each update.

    ``drawn`` says that the inputs are our own.
    """

    module: nn.Module
    inputs: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    batches: Callable[[int], object] | None = None
    drawn: bool = False

    def __call__(self) -> Any:
        """The forward pass."""
        return self.module(*self.inputs, **self.keywords)

    def tensors(self) -> Iterator[Tensor]:
        """Those that it is given."""
        return tensors((self.inputs, self.keywords))

    @property
    def sequences(self) -> int:
        """How many there are along the first axis of the inputs' first tensor."""
        return next((len(t) for t in self.tensors() if t.dim()), 0)

    def sequence(self, index: int) -> Made:
        """With one sequence of the inputs."""

        def one(x: Any) -> Any:
            batched = isinstance(x, Tensor) and x.dim() and len(x) == self.sequences
            return x[index : index + 1] if batched else x

        inputs, keywords = tree_map(one, (self.inputs, self.keywords))
        return replace(self, inputs=inputs, keywords=keywords)

    def at(self, step: int) -> Made:
        """With the inputs of an update, counted from 0; raises :class:`InputError`."""
        if self.batches is None:
            return self
        what = f"batch {step}"
        try:
            with talking_aside():
                inputs = self.batches(step)
        except Exception as error:  # somebody else's code fails in its own ways
            raise InputError(f"{what} failed: {told(error)}") from error
        return replace(_of(self.module, inputs, what), batches=self.batches)


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of sequences and mappings, however nested, and of a record."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(one)
    elif hasattr(value, "__dict__"):
        yield from (one for one in vars(value).values() if isinstance(one, Tensor))


@dataclass(frozen=True)
class Factory:
    """What makes somebody's model: ``factory.make(24)`` of 24 layers, or ``factory.make()``.

    One that a ``text`` names travels to other processes as that text, where it is loaded again if
    its ``code`` is still the same (a digest, None where it is not known).
    """

    name: str
    function: Callable[..., Any]
    text: str = ""
    code: str | None = None

    def __call__(self, *given: Any) -> Any:
        """What the function gives."""
        return self.function(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.text:
            if self.code is None:
                raise pickle.PicklingError(f"the code of {self.name} is not known")
            return _again, (self.name, self.text, self.code)
        return Factory, (self.name, self.function, "", self.code)

    def depends_on(self, what: str, dtype: torch.dtype, *beside: object) -> object:
        """What numbers depend on besides a job's own arguments; None where some code is unknown."""
        if None in (getattr(one, "code", "") for one in (self, *beside)):
            return None
        return what, self.text, self.code, beside, dtype, torch.get_default_device()

    def make(
        self, depth: int | None = None, inputs: object = None, seed: int = 0,
        width: int | None = None,
    ) -> Made:  # fmt: skip
        """Call the factory and check what it gives; raises :class:`InputError`.

        With a ``width`` it is FACTORY(depth, width), or FACTORY(width) where there is no depth.
        ``inputs`` replace what the factory gives beside the module; where there are none,
        ``seed`` is that of our own.
        """
        name, asks_for = getattr(self.function, "__name__", ""), ""
        if inspect.isclass(self.function):
            asks_for = f"a factory takes a depth: def make(depth): return {name}(…)"
        sizes = self._sizes(depth, width, asks_for)
        try:
            with talking_aside():
                given = self.function(*sizes)
        except (Exception, SystemExit) as error:  # somebody else's code fails in its own ways
            more = f"; {name} is a class, and {asks_for}" if asks_for and width is None else ""
            raise InputError(f"{self.name} failed: {told(error)}{more}") from error
        module, beside = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
        return made(module, beside if inputs is None else inputs, self.name, seed)

    def seeded(
        self, seed: int, depth: int | None = None, inputs: object = None, width: int | None = None
    ) -> Made:
        """:meth:`make` with torch's generator at ``seed``; behind it the generator is as before."""
        with alone(), torch.random.fork_rng():
            torch.manual_seed(seed)
            return self.make(depth, inputs, seed, width)

    def _sizes(self, depth: int | None, width: int | None, asks_for: str) -> tuple[int, ...]:
        """What the function is called with; raises :class:`InputError` where it takes less."""
        parameters = self._parameters()
        if depth is not None and depth < 1:
            raise InputError(f"depth {depth} is not a whole number of layers from 1")
        first = parameters[0] if parameters else None
        if first and first.name in NO_DEPTHS and first.default is not first.empty:
            raise InputError(
                f"{self.name} takes {first.name} first, and a factory takes a depth: "
                "def make(depth): return …"
            )
        if width is not None:
            alone = len(parameters) == 1 and depth is None and parameters[0].name not in DEPTHS
            if not alone and len(parameters) < 2:
                raise InputError(
                    f"{self.name} takes no width: def make(depth, width) gives a model of both, "
                    "and def make(width) one of a depth of its own"
                )
            return (width,) if alone else (WIDE_DEPTH if depth is None else depth, width)
        required = [p.name for p in parameters if p.default is p.empty]
        if len(required) > 1:
            which = " is a class that" if asks_for else ""
            raise InputError(
                f"{self.name}{which} asks for {', '.join(required)}; "
                f"{asks_for or 'a factory takes the depth alone, or nothing'}"
            )
        if depth is None:
            return (DEPTH,) if required else ()
        if not parameters:
            raise InputError(f"{self.name} takes no depth, so that its depth cannot be varied")
        return (depth,)

    def _parameters(self) -> list[inspect.Parameter]:
        """Those that a call may give by place; none where they are not known."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):
            return []
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p for p in parameters if p.kind in kinds]


def load_factory(text: str) -> Factory:
    """The factory that a text names; raises :class:`InputError` where there is none."""
    place, colon, name = text.rpartition(":")
    if not (colon and place and name.isidentifier()):
        raise InputError(f"the model {text!r} is not of the form {FORM}")
    if place.endswith(".py"):
        module = _from_file(Path(place))
    else:
        with _importing(place, Path.cwd()):
            module = importlib.import_module(place)
    if not hasattr(module, name):
        own = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise InputError(f"{place} has no {name!r}{guess(name, own)}")
    function = getattr(module, name)
    if not callable(function):
        raise InputError(f"{text} is no function but of type {type(function).__name__}")
    return Factory(text, function)


def factory_of(given: object) -> Factory:
    """The factory that a text names, with the digest of its code, or a function in memory."""
    if isinstance(given, str):
        return load_known_factory(given)
    if callable(given):
        return Factory(getattr(given, "__name__", "the factory"), given)
    raise InputError(f"{shown(given)} makes no models: give a function of the depth")


def load_known_factory(text: str) -> Factory:
    """The factory that a text names, with the digest of its code, to travel and to be kept."""
    place, _, name = text.rpartition(":")
    if place.endswith(".py"):
        require_file(Path(place))
        path = Path(place).resolve()
        return replace(load_factory(text), text=f"{path}:{name}", code=sources(path.parent))
    found = load_factory(text)
    file = getattr(sys.modules[place], "__file__", None)
    return replace(found, text=text, code=None if file is None else sources(Path(file).parent))


def _again(name: str, text: str, code: str) -> Factory:
    """In another process; what is wrong is raised where the factory is called."""
    try:
        return _loaded(name, text, code)
    except InputError as error:
        wrong = error

        def fails(depth: object = None, *given: object, **named: object) -> None:
            raise wrong

        return Factory(name, fails)


@cache  # of what succeeds
def _loaded(name: str, text: str, code: str) -> Factory:
    found = load_known_factory(text)
    if found.code != code:
        raise InputError(f"the code of {name} has changed since it was first loaded")
    return replace(found, name=name)


def _from_file(path: Path) -> ModuleType:
    require_file(path)
    name = f"_factory_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # of any file that ends in .py
    module = importlib.util.module_from_spec(spec)
    with _importing(str(path), path.parent):
        sys.modules[name] = module  # dataclasses and pickle look their module up
        spec.loader.exec_module(module)
    return module


@contextmanager
def _importing(what: str, folder: Path) -> Iterator[None]:
    """Importing somebody's code, with its folder among those that modules come from."""
    with alone():
        sys.path.insert(0, str(folder.resolve()))
        # a compiled file is known by its second and size: one edited within a second would be stale
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            with talking_aside():
                yield
        except (Exception, SystemExit) as error:
            raise InputError(f"{what} cannot be imported: {told(error)}") from error
        finally:
            sys.dont_write_bytecode = before
            sys.path.remove(str(folder.resolve()))


_turn = threading.RLock()


@contextmanager
def alone() -> Iterator[None]:
    """Within it the other threads that run somebody's code here wait for their turn.

    That code draws from torch's generator, makes tensors of torch's default type and prints: all
    three belong to the process, and two threads would take each other's.
    """
    with _turn:
        yield


@contextmanager
def talking_aside() -> Iterator[None]:
    """Within it somebody else's code prints to standard error: standard output is for our data."""
    with alone(), redirect_stdout(sys.stderr):
        yield


def told(error: BaseException) -> str:
    """An error of somebody else's code as part of a sentence."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# --------------------------------------------------------------------------------- modules


def made(module: object, inputs: object = None, name: str = "the model", seed: int = 0) -> Made:
    """A module with inputs that it takes: those given, else tokens or vectors of our own.

    ``inputs`` are a tensor, a tuple of arguments, or a mapping of keyword arguments, or a function
    of the update, from 0 on, that gives such. Raises :class:`InputError` for what is no module,
    has no weights to read, or fails on them.
    """
    module = require_module(module, name)
    require_weights(module, name)
    if inputs is not None:
        whole = (
            Made(module, batches=inputs).at(0) if callable(inputs) else _of(module, inputs, name)
        )
        if (failure := _failure(whole)) is not None:
            raise InputError(
                f"the forward pass of {name} fails on the inputs given: {told(failure)}"
            ) from failure
        return whole
    failure = None
    for candidate in _own_inputs(module, seed):
        if (now := _failure(whole := _of(module, candidate, name))) is None:
            return replace(whole, drawn=True)
        failure = failure or now
    said = "" if failure is None else f", it fails: {told(failure)}"
    raise InputError(
        f"{name} takes neither token ids nor vectors of its width{said}; give its inputs, or "
        "let the factory give the pair (module, inputs)"
    ) from failure


def require_module(module: object, name: str = "the model") -> nn.Module:
    """The module; raises :class:`InputError` for anything else."""
    if not isinstance(module, nn.Module):
        raise InputError(
            f"{name} is {shown(module)}: give a torch.nn.Module, or a factory of one or of the "
            "pair (module, inputs)"
        )
    return module


def require_weights(module: nn.Module, name: str = "the model") -> None:
    """Raise :class:`InputError` for weights that cannot be read as numbers."""
    tensors = dict(module.named_parameters())
    if not tensors:
        raise InputError(f"{name} has no parameters")
    for path, p in (*tensors.items(), *module.named_buffers()):
        if nn.parameter.is_lazy(p):
            raise InputError(f"{name} is lazy: {path} has no shape before the first forward pass")
        if p.is_meta:
            raise InputError(f"{name} is on meta: {path} holds no numbers; make it on a device")
    for path, p in tensors.items():
        if p.is_complex():
            raise InputError(f"{name} is complex: no rule has a law for {path}; give a real model")
        if any(n > 1 and not s for n, s in zip(p.shape, p.stride(), strict=True)):
            raise InputError(
                f"{path} of {name} is expanded: its entries are one in memory, and no step or draw "
                "fits them; give it entries of its own, as .clone() makes them"
            )
    quantised = next((n for n, p in tensors.items() if not p.is_floating_point()), None) or next(
        (n for n, m in module.named_modules() if "quantized" in type(m).__module__), None
    )
    if quantised is not None:
        raise InputError(
            f"{name} is quantised ({quantised}); give the model before it was quantised"
        )


def _of(module: nn.Module, inputs: object, name: str) -> Made:
    match inputs:
        case Tensor():
            return Made(module, (inputs,))
        case Mapping():
            return Made(module, (), dict(inputs))
        case tuple() | list():
            return Made(module, tuple(inputs))
    raise InputError(
        f"the inputs of {name} are {shown(inputs)}; give a tensor, a tuple of arguments, a "
        "mapping of keyword arguments, or a function of the step that gives one"
    )


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Within it a module is evaluated without gradients, and what it prints is no data of ours."""
    training = [m for m in module.modules() if m.training]
    module.eval()
    try:
        with torch.no_grad(), talking_aside():
            yield
    finally:
        for m in training:
            m.training = True


def _failure(whole: Made) -> Exception | None:
    try:
        with evaluating(whole.module):
            whole()
    except Exception as error:  # in its own ways
        return error
    return None


def _own_inputs(module: nn.Module, seed: int) -> Iterator[object]:
    """Inputs to try: token ids where something is looked up, vectors of the width."""
    first = next(module.parameters())
    generator = torch.Generator().manual_seed(seed)
    tables = {m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)}
    tables |= {p.shape[0] for n, p in module.named_parameters() if p.dim() == 2 and "emb" in n}
    for size in sorted(tables, reverse=True):
        ids = torch.randint(min(size, 100), (BATCH, TOKENS), generator=generator)
        yield ids.to(first.device)
        yield (ids.to(first.device), ids.to(first.device))  # source and target
    widths = [p.shape[0] for p in module.parameters() if p.dim() == 1]
    widths += [p.shape[1] for p in module.parameters() if p.dim() == 2]
    for width in dict.fromkeys(widths):
        x = torch.empty(BATCH, TOKENS, width).normal_(generator=generator)
        x = x.to(first.device, first.dtype)
        yield x
        yield (x, x)
