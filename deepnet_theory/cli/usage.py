"""What the parser of the command line refuses, as one sentence that lists what is valid."""

from __future__ import annotations

import typer

from deepnet_theory.spec.errors import guess


def usage_error(error: Exception) -> str | None:
    """The sentence for one of typer's own errors; None for any other error.

    Typer's parser raises click's exceptions, its own copy of them in newer versions; they are
    told by their common way of showing themselves, not by where they are defined.
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
