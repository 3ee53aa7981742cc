"""Groups of options: each a dataclass, whose fields a command takes as its own options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from deepnet_theory.cli.streams import say
from deepnet_theory.spec.discovery import names
from deepnet_theory.spec.errors import InputError, unknown
from deepnet_theory.spec.files import require_writable
from deepnet_theory.spec.selection import Selection

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


def given(group: object, *besides: str) -> dict[str, Any]:
    """What was given of a group of options; the rest takes the library's own defaults."""
    values = {f.name: getattr(group, f.name) for f in fields(group)}  # type: ignore[arg-type]
    return {name: v for name, v in values.items() if v is not None and name not in besides}


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
        return Selection(**given(self, "regime"), regime=regime)

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
class Measure:
    """What to measure on."""

    depths: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="8,16,32 or 8:1000; encoder-decoder 8x6,16x6. Default 8,16,32,64,128.",
        ),
    ] = None
    width: Annotated[int | None, whole("D", "Model width; 64.")] = None
    heads: Annotated[int | None, whole("H", "Attention heads; 4.")] = None
    tokens: Annotated[int | None, whole("N", "Tokens a sequence; 32.")] = None
    batch: Annotated[int | None, whole("N", "Sequences a batch; 1.")] = None
    seeds: Annotated[int | None, whole("N", "Independent repetitions; 8.")] = None
    draws: Annotated[int | None, whole("N", "Draws a seed is the mean of; 4.")] = None
    ffn_ratio: Annotated[float | None, real("R", "Hidden width over width; 4.")] = None
    activation: Annotated[
        str | None,
        choice("relu, gelu or silu.", words_of("relu", "gelu", "silu")),
    ] = None
    step: Annotated[
        str | None,
        choice(
            "Step the branch matrices (default) or all parameters.",
            words_of("matrices", "all"),
            "WHICH",
        ),
    ] = None
    data: Annotated[
        str | None,
        choice("text, or gaussian:RHO of token correlation RHO.", words_of("text"), "DATA"),
    ] = None
    device: Annotated[
        str | None,
        choice("auto, cpu or cuda.", words_of("auto", "cpu", "cuda")),
    ] = None
    dtype: Annotated[
        str | None,
        choice("float32 or float64.", words_of("float32", "float64")),
    ] = None
    seed: Annotated[int | None, whole("S", "Of all random draws; 0.")] = None
    updates: Annotated[int | None, whole("T", "Also ‖F_T − F_0‖ after 2, 4, … T updates; 1.")] = (
        None
    )
    eta: Annotated[float | None, real("ETA", "Their learning rate; 0.0009765625.")] = None


@dataclass(frozen=True)
class Course:
    """How to train."""

    text: Annotated[str | None, typer.Option(metavar="FILE", help="Text to train on.")] = None
    steps: Annotated[int | None, whole("N", "Steps; 300.")] = None
    batch: Annotated[int | None, whole("N", "Windows a step; 8.")] = None
    tokens: Annotated[int | None, whole("N", "Bytes a window; 64.")] = None
    lr: Annotated[float | None, real("ETA", "Learning rate; 3e-4.")] = None
    seed: Annotated[int | None, whole("S", "Of all draws; 0.")] = None
    seeds: Annotated[int | None, whole("N", "Independent repetitions; 3.")] = None
    device: Annotated[str | None, choice("auto, cpu or cuda.", words_of("auto", "cpu", "cuda"))] = (
        None
    )


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
class Model:
    """The sizes of the model that constants are exported for."""

    width: Annotated[int | None, whole("D", "Model width; 512.")] = None
    heads: Annotated[int | None, whole("H", "Attention heads; 8.")] = None
    kv_heads: Annotated[int | None, whole("H", "Key and value heads; as many as heads.")] = None
    ffn_ratio: Annotated[float | None, real("R", "Hidden width over width; 4.")] = None
    vocab: Annotated[int | None, whole("V", "Vocabulary; 256, bytes.")] = None
    activation: Annotated[
        str | None,
        choice("relu, gelu or silu.", words_of("relu", "gelu", "silu")),
    ] = None
    bias: Annotated[
        bool | None, typer.Option("--bias/--no-bias", help="Bias vectors; with them.")
    ] = None
    tied_head: Annotated[
        bool, typer.Option("--tied-head", help="Share embedding and output head.")
    ] = False
    dropout: Annotated[float | None, real("P", "Dropout; 0.")] = None


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


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command whose parameters are option groups the groups' fields as parameters."""
    hints = get_type_hints(command, include_extras=True)
    own: list[inspect.Parameter] = []
    options: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind, takes = hints[name], Takes()
        if isinstance(getattr(kind, "__metadata__", (None,))[0], Takes):
            kind, takes = get_args(kind)
        if not is_dataclass(kind):
            own.append(parameter.replace(annotation=kind))
            continue
        groups[name] = kind  # type: ignore[assignment]
        inner = get_type_hints(kind, include_extras=True)
        options += [
            inspect.Parameter(
                f.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if f.default is MISSING else f.default,
                annotation=takes.option(f.name, inner[f.name]),
            )
            for f in fields(kind)
        ]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    required = [p for p in (*own, *options) if p.default is inspect.Parameter.empty]
    optional = [p for p in (*own, *options) if p.default is not inspect.Parameter.empty]

    @wraps(command)
    def run(**given: Any) -> int:
        for name, kind in groups.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        return command(**given)

    run.__signature__ = inspect.Signature([*required, *optional])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*required, *optional)}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def chosen(what: str, value: str, valid: tuple[str, ...]) -> str:
    """``value`` if it is valid, else an error that lists what is."""
    if value not in valid:
        raise unknown(what, value, valid)
    return value
