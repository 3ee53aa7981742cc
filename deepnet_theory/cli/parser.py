"""Commands made of the library's own signatures, their help, and usage errors as one sentence."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Annotated, Any, get_origin, get_type_hints

import click

from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.outcome import UnstableWarning, guess
from deepnet_theory.definitions.record import Setting, setting, settings_of
from deepnet_theory.report.text import page_columns

PROGRAM = "deepnet-theory"
EXIT_CODES = {
    0: "done; PROVED, MEASURED or SUPPORTED, and every verdict as recorded",
    1: "REFUTED, or a verdict that is not as recorded",
    2: "bad input, or a missing extra",
    3: "UNDECIDED",
    4: "refused: no rule exists, or a law is missing",
    70: "an error of ours",
    130: "interrupted",
    141: "the output's reader has gone",
}

Given = dict[str, Any]  # what was typed, by the names of the parameters it is meant for
Verb = Callable[..., Any]  # a function of the library


@dataclass(frozen=True)
class Command:
    """A command: what it runs, and where its options come from.

    ``takes`` are dataclasses of settings and functions of the library, the latter as
    ``module:name``; ``run`` is given the first. ``without`` are options that the command lacks,
    ``required`` those that it needs. ``argument`` is typed without an option: ``[…]`` may be left
    out, ``…...`` repeated. The docstring of ``run`` is the help, with examples at the end.
    """

    run: Callable[[Verb, Given], int]
    takes: tuple[Any, ...]
    without: str = ""
    required: str = ""
    argument: str = ""

    @property
    def about(self) -> tuple[str, list[str]]:
        """The help, and the examples."""
        text, _, lines = (inspect.getdoc(self.run) or "").partition("\n\nExamples:\n")
        return text, [line.strip() for line in lines.splitlines()]

    @property
    def settings(self) -> dict[str, Setting]:
        """The options by name; the first source that has a name gives it."""
        found: dict[str, Setting] = {}
        for source in map(_loaded, self.takes):
            for one in (settings_of if isinstance(source, type) else _parameters)(source):
                if one.name not in (*self.without.split(), self.argument):
                    found.setdefault(one.name, one)
        return found


def _loaded(verb: Any) -> Any:
    return resolve_name(f"deepnet_theory.{verb}") if isinstance(verb, str) else verb


def _parameters(verb: Verb) -> Iterator[Setting]:
    """The parameters of a function that have an option; types for checkers alone have none."""
    known = inspect.unwrap(verb).__globals__
    for name, one in inspect.signature(verb).parameters.items():
        alone = SimpleNamespace(__annotations__={name: one.annotation})
        with suppress(NameError):
            hint = get_type_hints(alone, known, include_extras=True)[name]
            if get_origin(hint) is Annotated:
                yield setting(name.rstrip("_"), hint, one.default)  # as Python's own words need


def option(one: Setting, required: bool) -> click.Option:
    """The option of a setting; its help ends in the default."""
    o, name = one.option, one.name.replace("_", "-")
    letter = [o.letter] if o.letter else []
    if one.kind is bool:
        flag = f"--{name}/--no-{name}" if one.default else f"--{name}"
        return click.Option([flag, *letter], is_flag=True, default=None, help=f"{o.help}.")
    default = f"{one.default:.10g}" if isinstance(one.default, float) else one.default
    none = required or default in (None, (), inspect.Parameter.empty)
    shown = "" if none else f" (default {default})"
    kind: Any = one.kind if one.kind in (int, float) else str
    if o.folder or o.words:  # the library says which names are valid; their case does not matter
        kind = str.lower
    names, words = [f"--{name}", *letter], f"{o.help}{shown}."
    return click.Option(names, metavar=o.metavar, help=words, type=kind, required=required)


def command_line(words: Sequence[str], commands: dict[str, Command]) -> click.Group:
    """The parser for ``words``; only the command that is called is built, to start quickly."""
    how = {"help_option_names": ["-h", "--help"], "max_content_width": page_columns()}
    group = click.Group(
        PROGRAM,
        help="Derive and measure how residual connections, initialisation and learning rates of "
        "Transformers must scale with depth and width.",
        epilog=_epilog(("derive --optimizer adam --depth 200", "list optimizers")),
        context_settings=how,
    )
    click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")(group)
    called = {name: one for name, one in commands.items() if words[:1] == [name]}
    for name, one in (called or commands).items():
        settings = one.settings if called else {}
        options = [option(s, s.name in one.required.split()) for s in settings.values()]
        params = [*_arguments(one), *sorted(options, key=lambda option: not option.required)]
        about, examples = one.about
        texts: Any = {"short_help": about.partition("\n")[0], "epilog": _epilog(examples)}
        run = partial(_called, one)
        group.add_command(click.Command(name, callback=run, params=params, help=about, **texts))
    return group


def _arguments(one: Command) -> Iterator[click.Argument]:
    if name := one.argument.strip("[.]"):
        many = one.argument.endswith("...")
        label = f"[{name.upper()}]..." if many else one.argument.upper()
        needed = one.argument == name
        yield click.Argument([name], metavar=label, required=needed, nargs=-1 if many else 1)


def _called(one: Command, **given: Any) -> int:
    """Run a command on what was typed; its output has the warnings."""
    typed = {name: v for name, v in given.items() if v is not None and v != ()}
    with warnings.catch_warnings(action="ignore", category=UnstableWarning):
        return one.run(_loaded(one.takes[0]), typed)


def _epilog(examples: Iterable[str]) -> str:
    # \b keeps the parser from joining the lines into one paragraph
    commands = "\n".join(f"  {PROGRAM} {example}" for example in examples)
    codes = "\n".join(f"  {code:<4}{meaning}" for code, meaning in EXIT_CODES.items())
    return f"\b\nExamples:\n{commands}\n\n\b\nExit codes:\n{codes}"


def usage_sentence(error: click.ClickException) -> str:
    """What the parser refuses, what is valid, and the name nearest to it."""
    # versions word an unknown option differently, and some add a guess
    said = error.format_message().partition(" Did you mean")[0].strip().rstrip(".")
    context: Any = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption):
        said, name = f"No such option: {error.option_name}", error.option_name
        valid = [o.opts[0] for o in context.command.params if o.opts[0][:2] == "--"]
    elif context is not None and isinstance(context.command, click.Group):
        valid, name = sorted(context.command.commands), said.partition("'")[2].rstrip("'")
    else:
        return said
    return f"{said}; valid are: {', '.join(valid)}{guess(name, valid)}"
