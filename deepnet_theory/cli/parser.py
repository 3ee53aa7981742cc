"""The parser of a command line, its help, and what it refuses as one sentence."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

import typer

from deepnet_theory.cli.commands import COMMANDS
from deepnet_theory.cli.options import grouped
from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.outcome import guess
from deepnet_theory.report.text import page_columns

EXAMPLES: dict[str, tuple[str, ...]] = {
    "derive": (
        "derive --optimizer adam --depth 200 --format latex",
        'derive --update "-eta*norm(theta)*sign(g)" --compare-closures',
    ),
    "verify": (
        "verify --optimizer adam --depths 8,16,32,64,128",
        "verify --optimizer adam --across width --rules rule,sp",
        'verify --optimizer sgd --alpha "N**(1/3)" --beta "N**(-1/3)"',
    ),
    "predict": (
        "predict --optimizer adam --depths 8,10000",
        'predict --optimizer sgd --alpha "N**(1/3)" --beta "N**(-1/3)"',
    ),
    "check": ("check", "check su-lambda-argmin cake-constants --seed 1 --format json"),
    "export": (
        "export --optimizer lamb --depth 200 -o constants.json",
        "export --optimizer sgd --stack encoder-decoder --depth 9,6",
    ),
    "train": (
        "train constants.json",
        "train constants.json --text book.txt --steps 300",
    ),
    "transfer": (
        "transfer --optimizer adam --depths 8,32 --rates 1e-3:6e-2",
        "transfer --optimizer adam --widths 32:256 --rates 1e-3:1e-1",
        "transfer own.py:train_setup --depths 4:16 --rates 1e-3:6e-2 --page t.html",
    ),
    "measure": (
        "measure model.py:make --depths 6,12,24 --optimizer adamw",
        "measure model.py:make --widths 64:512 --optimizer adamw",
        'measure model.py:make --depths 8:64 --update "-eta*sign(g)"',
    ),
    "report": (
        "report --optimizer sgd -o report.html",
        "report --optimizer adam --depth 99 --depth 999 -o report.html",
    ),
    "audit": (
        "audit mine.py:make --optimizer adamw",
        "audit mine.py:make --constants constants.json --format json",
    ),
    "cache": ("cache", "cache clear"),
    "list": ("list", "list schemes --format json"),
}

EXIT_CODES = {
    0: "done; every step PROVED, the exponent SUPPORTED, verdicts as recorded",
    1: "REFUTED, or a verdict that is not as recorded",
    2: "bad input, or a missing extra",
    3: "UNDECIDED",
    4: "refused: no rule exists, or a law is missing",
    70: "an error of ours",
    130: "interrupted",
    141: "the output's reader has gone",
}


def command_line(words: Sequence[str]) -> Any:
    """The parser for ``words``; only the command that is called is built, to start quickly."""
    # to build all twelve takes longer than a listing
    return _parser(words[0] if words and words[0] in COMMANDS else None, page_columns())


@cache
def _parser(called: str | None, columns: int) -> Any:
    app = typer.Typer(
        name="deepnet-theory",
        help="Derive and measure how residual connections and initialisation of deep "
        "Transformers must scale with depth.",
        epilog=_epilog(("derive --optimizer adam --depth 200", "list optimizers")),
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": columns,
        },
    )

    @app.callback()
    def top(
        version: Annotated[
            bool, typer.Option("--version", help="Show the version.", callback=_version)
        ] = False,
    ) -> None:
        pass

    for name, command in COMMANDS.items():
        if called in (None, name):
            # given, because one that the parser takes from the docstring is cut to the line
            summary = (command.__doc__ or "").partition("\n")[0]
            taken = app.command(name, short_help=summary, epilog=_epilog(EXAMPLES[name]))
            taken(grouped(command))
    parser = typer.main.get_command(app)
    for name, one in getattr(parser, "commands", {called: parser}).items():
        hints = get_type_hints(COMMANDS[name], include_extras=True)
        for argument in one.params:
            if argument.param_type_name == "argument":
                # a newer click takes from typer what an argument means, or tells it twice
                record = argument.metavar, get_args(hints[argument.name])[1].help
                argument.get_help_record = lambda _, record=record: record
    return parser


def _version(asked: bool) -> None:
    if asked:
        print(f"deepnet-theory {__version__}")
        raise typer.Exit


def _epilog(examples: tuple[str, ...]) -> str:
    # \b keeps the parser from joining the lines into one paragraph
    commands = (_hanging(f"deepnet-theory {example}", " \\") for example in examples)
    codes = (_hanging(f"{code:<4}{meaning}") for code, meaning in EXIT_CODES.items())
    return "\b\nExamples:\n{}\n\n\b\nExit codes:\n{}".format("\n".join(commands), "\n".join(codes))


def _hanging(line: str, broken: str = "") -> str:
    """A line of a help on the columns there are; ``broken`` ends all but its last."""
    lines = textwrap.wrap(
        line,
        page_columns() - 2 - len(broken),  # the parser indents by two
        initial_indent="  ",
        subsequent_indent=" " * 6,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return f"{broken}\n".join(lines)


def usage_error(error: Exception) -> str | None:
    """The sentence for one of typer's own errors; None for any other error.

    Typer's parser raises click's exceptions, its own copy of them in newer versions; they are
    recognised by their common way of showing themselves, not by where they are defined.
    """
    if isinstance(error, typer.Abort):  # which the parser makes of Ctrl-C
        raise KeyboardInterrupt from None
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    # versions word an unknown option differently, and some add a guess, or two
    sentence = str(format_message()).partition(" Did you mean")[0].strip().rstrip(".")
    name = getattr(error, "option_name", None)
    if name is not None:
        sentence = f"No such option: {name}"
    else:
        name = sentence.partition("'")[2].rstrip("'")
    context = getattr(error, "ctx", None)
    if context is None or not sentence:
        return sentence
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help())
        return ""
    valid = _valid(error, context)
    return f"{sentence}; valid are: {', '.join(valid)}{guess(name, valid)}" if valid else sentence


def _valid(error: Exception, context: typer.Context) -> list[str]:
    command = context.command
    if type(error).__name__ == "NoSuchOption":
        return [p.opts[0] for p in command.params if p.opts[0].startswith("--")]
    commands = getattr(command, "commands", None)
    return sorted(commands) if commands else []
