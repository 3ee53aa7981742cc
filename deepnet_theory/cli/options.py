"""Groups of options: each a dataclass, whose fields a command takes as its own options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from deepnet_theory.cli.streams import say
from deepnet_theory.spec.constants import Architecture
from deepnet_theory.spec.discovery import names
from deepnet_theory.spec.errors import InputError, unknown
from deepnet_theory.spec.files import require_writable
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.settings import Measurement, Setting, ShortRun, settings_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from deepnet_theory.spec.rule import Rule


def names_of(folder: str) -> Callable[[str], list[str]]:
    """Completion of a name from one of the discovered folders."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names(folder) if name.startswith(incomplete.lower())]

    return complete


def words_of(*words: str) -> Callable[[str], list[str]]:
    """Completion of one of a few fixed words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete.lower())]

    return complete


def _whole(text: str) -> int:
    """A whole number; the refusal restates the input, which typer's own does not."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def _real(text: str) -> float:
    """A real number; the refusal restates the input."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def in_lower_case(text: str) -> str:
    """A name as it is kept; in which case it is given does not matter."""
    return text.lower()


def choice(help: str, complete: Callable[[str], list[str]], metavar: str = "NAME") -> Any:
    """An option that takes a name, in any case."""
    return typer.Option(metavar=metavar, help=help, autocompletion=complete, parser=in_lower_case)


def whole(metavar: str, help: str) -> Any:
    """An option that takes a whole number; its help ends in the default."""
    return typer.Option(metavar=metavar, help=help, parser=_whole, show_default=False)


def real(metavar: str, help: str) -> Any:
    """An option that takes a real number; its help ends in the default."""
    return typer.Option(metavar=metavar, help=help, parser=_real, show_default=False)


def one_of(*formats: str) -> Any:
    """The option of the formats that a command has."""
    return typer.Option(
        metavar="NAME",
        help=f"{', '.join(formats)}.",
        autocompletion=words_of(*formats),
        parser=in_lower_case,
        callback=lambda value: chosen("format", value, formats),
    )


def file_to_write(help: str, *names: str) -> Any:
    """An option that names a file; an impossible one is refused before any work is done."""
    return typer.Option(*names, metavar="FILE", help=help, callback=_writable)


def _writable(file: str | None) -> str | None:
    if file is not None:
        require_writable(file)
    return file


@dataclass(frozen=True)
class Takes:
    """How a command takes a group of options: with helps of its own, and ``without`` some.

    Those are refused with the reason where they are given, and its help does not list them.
    """

    without: tuple[str, ...] = ()
    helps: Mapping[str, str] = field(default_factory=dict)

    def option(self, name: str, annotation: Any) -> Any:
        """An option's annotation as the command takes it."""
        kind, option = get_args(annotation)
        own = copy(option)
        own.hidden = name in self.without
        own.help = self.helps.get(name, option.help)
        return Annotated[kind, own]


@dataclass(frozen=True)
class Select:
    """What to derive for."""

    optimizer: Annotated[
        str | None,
        choice("Optimizer; see `deepnet-theory list optimizers`.", names_of("optimizers")),
    ] = None
    update: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="Or your own first update, in eta, g and theta."),
    ] = None
    regime: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A>B", help="Which of two terms of an update is the larger; repeatable."
        ),
    ] = None
    placement: Annotated[
        str,
        choice("post-ln, pre-ln, res-post-ln or sandwich-ln.", names_of("placements")),
    ] = "post-ln"
    norm: Annotated[
        str,
        choice("layer or rms.", names_of("norms")),
    ] = "layer"
    stack: Annotated[
        str,
        choice(
            "encoder, decoder or encoder-decoder.",
            words_of("encoder", "decoder", "encoder-decoder"),
        ),
    ] = "encoder"
    layer: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help='Your own layer, e.g. "attention,ffn:swiglu".'),
    ] = None
    method: Annotated[
        str | None,
        choice("probe, lemma or moments.", words_of("probe", "lemma", "moments")),
    ] = None
    closure: Annotated[
        str | None,
        choice("The condition beside the balance; computed if not given.", names_of("closures")),
    ] = None
    amplification: Annotated[
        str | None,
        choice(
            "Of an encoder by its decoder: published, worst-case or independent.",
            words_of("published", "worst-case", "independent"),
        ),
    ] = None
    one_alpha: Annotated[
        bool, typer.Option("--one-alpha", help="One alpha for all kinds of sublayers of a part.")
    ] = False
    allow_ascent: Annotated[
        bool, typer.Option("--allow-ascent", help="Admit an update under which the loss rises.")
    ] = False

    scheme: Annotated[
        str | None,
        choice("Judge a published scheme instead; see `list schemes`.", names_of("schemes")),
    ] = None

    def selection(self) -> Selection:
        """The selection; raises :class:`InputError` for anything unknown."""
        if self.scheme is not None:
            raise InputError(
                f"--scheme {self.scheme} was given: derive and verify judge a scheme, and a scheme "
                "brings its own constants, so that there is nothing to derive"
            )
        if (self.optimizer is None) == (self.update is None):
            raise InputError("give exactly one of --optimizer NAME and --update EXPR")
        regime = tuple(_comparison(text) for text in self.regime or ())
        given = {f.name: getattr(self, f.name) for f in fields(Selection)} | {"regime": regime}
        return Selection(**{name: value for name, value in given.items() if value is not None})

    def require_scheme_alone(self) -> None:
        """Raise :class:`InputError` for options that a scheme answers itself."""
        besides = ("scheme", "optimizer", "update")
        given = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        for name in given:
            if name not in besides:
                raise InputError(
                    f"--{name.replace('_', '-')} was given with --scheme {self.scheme}, which has "
                    "its own; a scheme is judged under --optimizer NAME or --update EXPR"
                )


def _comparison(text: str) -> tuple[str, str]:
    larger, sign, smaller = text.partition(">")
    if not (larger.strip() and sign and smaller.strip()):
        raise InputError(f'the regime {text!r} is not of the form "A>B", e.g. "rms(theta)>1/1000"')
    return larger.strip(), smaller.strip()


@dataclass(frozen=True)
class Own:
    """A rule of one's own in place of the derived one."""

    alpha: Annotated[
        str | None, typer.Option(metavar="EXPR", help='Your own alpha, e.g. "N**(1/3)".')
    ] = None
    beta: Annotated[str | None, typer.Option(metavar="EXPR", help="Your own beta.")] = None
    decoder_alpha: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Alpha of the decoder, if it differs.")
    ] = None
    decoder_beta: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Beta of the decoder, if it differs.")
    ] = None

    def refuse_beside_scheme(self, scheme: str) -> None:
        """Raise :class:`InputError` where a rule was given beside a scheme."""
        for f in fields(self):
            if getattr(self, f.name) is not None:
                option = f"--{f.name.replace('_', '-')}"
                raise InputError(f"{option} was given with --scheme {scheme}, which has its own")

    def rule(self, selection: Selection) -> Rule | None:
        """The rule, or None where no option was given."""
        given = [f.name for f in fields(self) if getattr(self, f.name) is not None]
        if not given:
            return None
        if self.alpha is None or self.beta is None:
            option = f"--{given[0].replace('_', '-')}"
            raise InputError(f"{option} was given without both --alpha EXPR and --beta EXPR")
        from deepnet_theory.workflow import own_rule

        return own_rule(selection, self.alpha, self.beta, self.decoder_alpha, self.decoder_beta)


@dataclass(frozen=True)
class Work:
    """Where the work is done, and what of it is kept."""

    processes: Annotated[
        int | None, whole("N", "That share the work on a CPU; one a core where it is long.")
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler, whose workers do the work."),
    ] = None
    cache: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Finished work is kept there; ~/.cache/deepnet-theory."),
    ] = None
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Do all of it anew, and keep nothing.")
    ] = False

    @contextmanager
    def place(self, talk: Talk) -> Iterator[dict[str, Any]]:
        """The keywords of whatever does the work; at the end, what the cache has spared or lacks.

        Raises :class:`InputError` for options that exclude each other.
        """
        if self.no_cache and self.cache is not None:
            raise InputError(f"--cache {self.cache} was given with --no-cache")
        if self.cluster is not None and self.processes is not None:
            raise InputError(f"--processes {self.processes} was given with --cluster")
        from deepnet_theory.processes import cache_of

        cache = cache_of(False if self.no_cache else self.cache or True)
        try:
            with self._executor() as executor:
                yield {"processes": self.processes, "executor": executor, "cache": cache}
        finally:
            if cache is not None and not talk.quiet:
                if cache.trouble:
                    say(f"warning: {cache.trouble}")
                if cache.taken:
                    say(
                        f"{cache.taken} of {cache.asked} results came from the cache; --no-cache "
                        "measures again"
                    )

    @contextmanager
    def _executor(self) -> Iterator[Executor | None]:
        """The cluster's, if one was named."""
        if self.cluster is None:
            yield None
            return
        from deepnet_theory.processes.cluster import cluster

        with cluster(self.cluster) as executor:
            yield executor


def goes_on(stopped: str, place: dict[str, Any]) -> None:
    """Say how work that ended early goes on, where what is finished is kept."""
    cache = place["cache"]
    if stopped and cache is not None and not cache.trouble:
        say(f"{stopped}: the same command goes on; what is finished is kept in {cache.folder}")


@dataclass(frozen=True)
class Talk:
    """How much to say on standard error."""

    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log to standard error.")] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no notes on standard error.")
    ] = False

    def note(self, message: str) -> None:
        """Say on standard error what has been done, where ``--verbose`` asks for it."""
        if self.verbose and not self.quiet:
            say(message)


class Generated:
    """Options made of a dataclass of settings: what was given of them, as keywords.

    ``besides`` are options that are no settings, by name; ``without`` names settings that a command
    does not take, ``defaults`` its own of the others.
    """

    def __init__(
        self,
        kind: type,
        besides: Mapping[str, Any] | None = None,
        without: Sequence[str] = (),
        **defaults: object,
    ) -> None:
        self.options = {**(besides or {})} | {
            one.name: _generated(one, defaults.get(one.name, one.default))
            for one in settings_of(kind)
            if one.name not in without
        }

    def parameters(self) -> Iterator[inspect.Parameter]:
        """A command's parameters; None of what is not given."""
        for name, annotation in self.options.items():
            yield inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )

    def take(self, given: dict[str, Any]) -> dict[str, Any]:
        """The keywords; the rest takes the library's own defaults."""
        found = {name: given.pop(name) for name in self.options}
        return {name: value for name, value in found.items() if value is not None}


def _generated(one: Setting, default: object) -> Any:
    """The annotation of the parameter that a setting becomes."""
    o, name, told = one.option, f"--{one.name.replace('_', '-')}", ""
    if one.kind in (int, float) and default is not None:
        told = f"; {default}" if one.kind is int else f"; {default:.10g}"
    text = f"{o.help}{told}."
    if one.kind is bool:
        flag = f"{name}/--no-{one.name.replace('_', '-')}" if default else name
        return Annotated[bool | None, typer.Option(flag, help=text)]
    if one.kind is int:
        return Annotated[int | None, whole(o.metavar, text)]
    if one.kind is float:
        return Annotated[float | None, real(o.metavar, text)]
    if o.words:
        return Annotated[str | None, choice(text, words_of(*o.words), o.metavar)]
    return Annotated[str | None, typer.Option(metavar=o.metavar, help=text)]


def _depths(form: str = "8,16,32 or 8:1000; encoder-decoder 8x6,16x6.") -> dict[str, Any]:
    told = f"{form} Default 8,16,32,64,128."
    return {"depths": Annotated[str | None, typer.Option(metavar="LIST", help=told)]}


MEASURE = Generated(Measurement, _depths())
PREDICT = Generated(Measurement, _depths(), ("updates", "eta"))
TRANSFER = Generated(
    Measurement,
    _depths("8,16,32 or 8:1000."),
    ("draws", "updates", "eta", "data"),
    batch=8,
    seeds=4,
)
SIZES = Generated(Architecture)
TRAIN = Generated(ShortRun)


class _Group:
    """Options that are the fields of a dataclass, which the command receives."""

    def __init__(self, kind: Any, takes: Takes) -> None:
        self.kind, self.takes = kind, takes

    def parameters(self) -> Iterator[inspect.Parameter]:
        """A command's parameters."""
        hints = get_type_hints(self.kind, include_extras=True)
        for f in fields(self.kind):
            yield inspect.Parameter(
                f.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if f.default is MISSING else f.default,
                annotation=self.takes.option(f.name, hints[f.name]),
            )

    def take(self, given: dict[str, Any]) -> Any:
        """The dataclass."""
        return self.kind(**{f.name: given.pop(f.name) for f in fields(self.kind)})


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command whose parameters are groups of options these options as its parameters."""
    hints = get_type_hints(command, include_extras=True)
    own: list[inspect.Parameter] = []
    groups: dict[str, _Group | Generated] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind, takes = hints[name], next(iter(getattr(hints[name], "__metadata__", ())), None)
        if isinstance(takes, Generated):
            groups[name] = takes
        elif is_dataclass(kind):
            groups[name] = _Group(kind, Takes())
        elif isinstance(takes, Takes):
            groups[name] = _Group(get_args(kind)[0], takes)
        else:
            keyword = inspect.Parameter.KEYWORD_ONLY
            own.append(parameter.replace(annotation=kind, kind=keyword))
    every = [*own, *(p for group in groups.values() for p in group.parameters())]
    # those that must be given come first; the others in their order
    every.sort(key=lambda p: p.default is not inspect.Parameter.empty)

    @wraps(command)
    def run(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group.take(given)
        return command(**given)

    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in every}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def chosen(what: str, value: str, valid: tuple[str, ...]) -> str:
    """``value`` if it is valid, else an error that lists what is."""
    if value not in valid:
        raise unknown(what, value, valid)
    return value
