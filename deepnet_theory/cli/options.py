"""Groups of options, made of the settings that the library declares, and what they give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from deepnet_theory.cli import say
from deepnet_theory.definitions.constants import Architecture
from deepnet_theory.definitions.discovery import names
from deepnet_theory.definitions.files import require_writable
from deepnet_theory.definitions.outcome import InputError, unknown
from deepnet_theory.definitions.record import (
    Measurement,
    Option,
    Setting,
    ShortRun,
    setting,
    settings_of,
)
from deepnet_theory.definitions.selection import Selection

if TYPE_CHECKING:
    from deepnet_theory.definitions.rule import Rule
    from deepnet_theory.definitions.scheme import Scheme


def _number(kind: type[int] | type[float], what: str) -> Callable[[str], float]:
    """What reads a number; the refusal restates the input, which typer's own does not."""

    def read(text: str) -> float:
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not a {what}") from None

    return read


NUMBERS = {int: _number(int, "whole number"), float: _number(float, "number")}


def in_lower_case(text: str) -> str:
    """A name as it is kept; upper and lower case are alike."""
    return text.lower()


def words_of(*words: str, folders: str = "") -> Callable[[str], list[str]]:
    """Completion of one of a few words, or of a name from the discovered folders."""

    def complete(incomplete: str) -> list[str]:
        valid = words or sorted({name for folder in folders.split() for name in names(folder)})
        return [word for word in valid if word.startswith(incomplete.lower())]

    return complete


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


Options = Mapping[str, Any]  # annotations of a command's parameters, by name


# One declaration, a field and its Option, gives the default, the keyword, the option and the help:
# written by hand in each place they had drifted apart.
def options_of(kind: type, **defaults: object) -> Options:
    """The options of a dataclass of settings; ``defaults`` are a command's own."""
    return {
        one.name: _option(one, defaults.get(one.name, one.default)) for one in settings_of(kind)
    }


def _option(one: Setting, default: object) -> Any:
    """The annotation of the parameter that a setting becomes; its help ends in the default."""
    o, name = one.option, one.name.replace("_", "-")
    shown = f"{default:.10g}" if isinstance(default, float) else default
    help = f"{o.help}." if default is None or one.kind is bool else f"{o.help}; {shown}."
    if one.kind is bool:
        flags = (f"--{name}/--no-{name}" if default else f"--{name}", *filter(None, [o.letter]))
        return Annotated[bool | None, typer.Option(*flags, help=help, show_default=False)]
    how: dict[str, Any] = {"metavar": o.metavar, "help": help, "show_default": False}
    if parser := NUMBERS.get(one.kind):
        how["parser"] = parser
    elif o.words or o.folder:
        how |= {"parser": in_lower_case, "autocompletion": words_of(*o.words, folders=o.folder)}
    return Annotated[one.kind | None, typer.Option(**how)]


@dataclass(frozen=True)
class _Depths:
    """Where a measurement is made: what is taken where none are given is the laboratory's."""

    depths: Annotated[
        str | None,
        Option("LIST", "8,16,32 or 8:1000; encoder-decoder 8x6,16x6. Default 8,16,32,64,128"),
    ] = None


MEASURE = {**options_of(_Depths), **options_of(Measurement)}
TRANSFER = {**options_of(_Depths), **options_of(Measurement, batch=8, seeds=4)}
SIZES = options_of(Architecture)
TRAIN = options_of(ShortRun)


@dataclass(frozen=True)
class Takes:
    """How a command takes a group of options: with helps of its own, and ``without`` some.

    Those are refused with the reason where they are given, and its help does not list them.
    """

    without: tuple[str, ...] = ()
    helps: Mapping[str, str] = field(default_factory=dict)

    def option(self, name: str, annotation: Any) -> Any:
        kind, option = get_args(annotation)
        changed = copy(option)
        changed.hidden = name in self.without
        changed.help = self.helps.get(name, option.help)
        return Annotated[kind, changed]


@dataclass(frozen=True)
class _Beside:
    """What a selection is not made of as it is typed."""

    regime: Annotated[
        list[str] | None,
        Option("A>B", "Which of two terms of an update is the larger; repeatable"),
    ] = None
    scheme: Annotated[
        str | None,
        Option(
            "NAME",
            "Judge a published scheme instead; see `list schemes`",
            folder="schemes",
        ),
    ] = None


Given = dict[str, Any]  # what was typed of a group of options, by name
SELECT = {**options_of(Selection), **options_of(_Beside)}
_ANEW = "Measure again, keep nothing; not covered: what your code reads besides its folder's *.py"
_OF_DECODER = "{} of the decoder, if it differs"


@dataclass(frozen=True)
class _Own:
    """A rule of one's own in place of the derived one."""

    alpha: Annotated[str | None, Option("EXPR", 'Your own alpha, e.g. "N**(1/3)"')] = None
    beta: Annotated[str | None, Option("EXPR", "Your own beta")] = None
    decoder_alpha: Annotated[str | None, Option("EXPR", _OF_DECODER.format("Alpha"))] = None
    decoder_beta: Annotated[str | None, Option("EXPR", _OF_DECODER.format("Beta"))] = None


OWN = options_of(_Own)


def flag(name: str) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')}"


def refuse_beside(given: Iterable[str], other: str, more: str = "") -> None:
    """Raise :class:`InputError` where an option was given beside what brings its own."""
    for name in given:
        raise InputError(f"{flag(name)} was given with {other}, which has its own{more}")


def of_scheme(select: Given, *but: str) -> Given:
    """The scheme and its optimizer; raises :class:`InputError` for what a scheme has itself."""
    defaults = {f.name: f.default for f in fields(Selection)}
    kept = {n: value for n, value in select.items() if n in ("scheme", "optimizer", "update")}
    others = {n: value for n, value in select.items() if n not in (*kept, *but)}
    more = "; a scheme is judged under --optimizer NAME or --update EXPR"
    answered = (n for n, value in others.items() if value != defaults[n])
    refuse_beside(answered, f"--scheme {select['scheme']}", more)
    return kept


def selection_of(select: Given) -> Selection:
    """The selection that was typed; raises :class:`InputError` for anything unknown."""
    if "scheme" in select:
        raise InputError(
            f"--scheme {select['scheme']} was given: derive and verify judge a scheme, export, "
            "transfer and audit take its own constants, and there is nothing to derive"
        )
    if ("optimizer" in select) == ("update" in select):
        raise InputError("give exactly one of --optimizer NAME and --update EXPR")
    return Selection(**{**select, "regime": tuple(map(_comparison, select.get("regime", ())))})


def beside_scheme(select: Given, scheme: Scheme) -> Selection:
    """The stack that a scheme's constants are for: its own where no option says another."""
    of_scheme(select, "stack", "layer", "norm")
    typed = {n: value for n, value in select.items() if n != "scheme"}
    if not {"optimizer", "update"} & typed.keys():
        typed["optimizer"] = scheme.optimizer
    return Selection(**{"stack": scheme.stack, "norm": scheme.norm, "uses": scheme.uses, **typed})


def _comparison(text: str) -> tuple[str, str]:
    larger, sign, smaller = text.partition(">")
    if not (larger.strip() and sign and smaller.strip()):
        raise InputError(f'the regime {text!r} is not of the form "A>B", e.g. "rms(theta)>1/1000"')
    return larger.strip(), smaller.strip()


def require_both(own: Given) -> None:
    """Raise :class:`InputError` for a rule of one's own without an alpha or without a beta."""
    if own and not {"alpha", "beta"} <= own.keys():
        option = flag(next(iter(own)))
        raise InputError(f"{option} was given: --alpha and --beta must be given together")


def rule_of(own: Given, selection: Selection) -> Rule | None:
    """The rule of one's own, if one was typed."""
    if not own:
        return None
    require_both(own)
    from deepnet_theory.cli.deriving import own_rule

    return own_rule(selection, **own)


@dataclass(frozen=True)
class Work:
    """Where the work is done, and what of it is kept."""

    processes: Annotated[
        int | None, Option("N", "Processes that share the work; one per core if it is long")
    ] = None
    cluster: Annotated[str | None, Option("ADDRESS", "Dask scheduler; its workers do the work")] = (
        None
    )
    cache: Annotated[
        str | None, Option("DIR", "Keep finished work there; ~/.cache/deepnet-theory")
    ] = None
    no_cache: Annotated[bool, Option("", _ANEW)] = False

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
        from deepnet_theory.processes.cluster import cluster

        # A file a finished job, under the name of all that it depends on: a killed run is the same
        # command once more. Whoever does the work is an executor, and the result hangs on none.
        cache = cache_of(False if self.no_cache else self.cache or True)
        elsewhere = nullcontext() if self.cluster is None else cluster(self.cluster, say)
        try:
            with elsewhere as executor:
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


def goes_on(stopped: str, place: dict[str, Any]) -> None:
    """Say how work that ended early goes on, where what is finished is kept."""
    cache = place["cache"]
    if stopped and cache is not None and not cache.trouble:
        say(f"{stopped}: the same command goes on; what is finished is kept in {cache.folder}")


@dataclass(frozen=True)
class Talk:
    """How much to say on standard error."""

    verbose: Annotated[bool, Option("", "Log to standard error", letter="-v")] = False
    quiet: Annotated[bool, Option("", "No progress, no notes on standard error", letter="-q")] = (
        False
    )

    def note(self, message: str) -> None:
        """Say on standard error what has been done, where ``--verbose`` asks for it."""
        if self.verbose and not self.quiet:
            say(message)


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of its settings, and those of its groups as parameters.

    A group is a parameter whose type holds settings, or that is annotated with their options: the
    command receives that type, or a dictionary, made of those that were given.
    """
    keyword, parameters = inspect.Parameter.KEYWORD_ONLY, []
    groups: dict[str, tuple[Callable[..., Any], Options]] = {}
    signature = inspect.signature(command).parameters
    for name, kind in get_type_hints(command, include_extras=True).items():
        bare, *notes = get_args(kind) if get_origin(kind) is Annotated else (kind,)
        takes = next((note for note in notes if isinstance(note, Takes)), Takes())
        options = next((note for note in notes if isinstance(note, dict)), None)
        if isinstance(bare, type) and is_dataclass(bare):
            groups[name] = bare, options_of(bare)
        elif options is not None:
            groups[name] = dict, options
        elif name != "return":
            parameter = signature[name]
            if isinstance(notes[0], Option):
                default = None if parameter.default is parameter.empty else parameter.default
                kind = _option(setting(name, kind, default), default)
            parameters.append(parameter.replace(annotation=kind, kind=keyword))
        if name in groups:
            parameters += [
                inspect.Parameter(n, keyword, default=None, annotation=takes.option(n, o))
                for n, o in groups[name][1].items()
            ]
    # those that must be given come first, then the command's own
    shared = {name for _, options in groups.values() for name in options}
    parameters.sort(key=lambda p: (p.default is not inspect.Parameter.empty, p.name in shared))

    @wraps(command)
    def run(**given: Any) -> int:
        for name, (make, options) in groups.items():
            typed = {n: given.pop(n) for n in options}
            given[name] = make(**{n: value for n, value in typed.items() if value is not None})
        return command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def chosen(what: str, value: str, valid: tuple[str, ...]) -> str:
    """``value`` if it is valid, else an error that lists what is."""
    if value not in valid:
        raise unknown(what, value, valid)
    return value
