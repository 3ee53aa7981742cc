"""The errors a user can meet, each with the exit code of the command line."""

INTERRUPTED = 130  # Ctrl-C, by the shells' convention


class DeepNetTheoryError(Exception):
    """Base of every error of this package; its text is one clear sentence."""

    exit_code = 2


class InputError(DeepNetTheoryError, ValueError):
    """The input is malformed or unknown; the sentence restates it and lists what is valid."""


class MissingExtraError(DeepNetTheoryError, ImportError):
    """An optional dependency is not installed; the sentence names the pip command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install 'deepnet-theory[{extra}]'"
        )


class Refusal(DeepNetTheoryError):  # noqa: N818  the outcome's name, as in the exit code
    """No rule exists for the selection, or the engine lacks a law; the sentence says which."""

    exit_code = 4
