"""How a command can end: a verdict or an error, each with its exit code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """UNDECIDED is never a pass."""

    IMPOSED = "IMPOSED"  # a condition that is asked for, such as a balance: not true or false
    PROVED = "PROVED"  # symbolic, exact, given the listed assumptions
    MEASURED = "MEASURED"  # a number, found again on explicit matrices
    SUPPORTED = "SUPPORTED"  # measured: interval inside the tolerance, rivals excluded
    ASSUMED = "ASSUMED"  # stated, not tested
    UNDECIDED = "UNDECIDED"  # the interval is too wide to say
    REFUTED = "REFUTED"  # a counterexample, or an interval that excludes it

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends in this verdict."""
        return {"REFUTED": 1, "UNDECIDED": 3, "ASSUMED": 3}.get(self.value, 0)


INTERRUPTION = "interrupted"
INTERRUPTED = 130  # Ctrl-C, by the shells' convention


def exit_code_after(stopped: str, otherwise: int) -> int:
    """130 where work was ``stopped`` by an interruption, else what its result says."""
    return INTERRUPTED if stopped == INTERRUPTION else otherwise


class DeepNetTheoryError(Exception):
    """Base of every error of this package; its text is one clear sentence."""

    exit_code = 2

    def __init__(self, sentence: str = "") -> None:
        super().__init__(short(sentence))


class InputError(DeepNetTheoryError, ValueError):
    """The input is malformed or unknown; the sentence restates it and lists what is valid."""


class UnstableWarning(UserWarning):
    """The rule trains worse the deeper the network is; the text says why, and which does not."""


class MissingExtraError(DeepNetTheoryError, ImportError):
    """An optional dependency is not installed; the sentence names the pip command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install 'deepnet-theory[{extra}]'"
        )


class Refusal(DeepNetTheoryError):  # noqa: N818  the outcome's name, as in the exit code
    """No rule exists for the selection, or the engine lacks a law; the sentence says which.

    ``remedy`` ends the sentence. It may take a search, so it is called when the sentence is read:
    most refusals only rule a candidate out.
    """

    exit_code = 4

    def __init__(self, sentence: str = "", remedy: Callable[[], str] | None = None) -> None:
        super().__init__(sentence)
        self._remedy = remedy

    def __str__(self) -> str:
        if self._remedy is not None:
            self.args = (short(f"{super().__str__()}; {self._remedy()}"),)
            self._remedy = None
        return super().__str__()

    def __reduce__(self) -> tuple[type[Refusal], tuple[str]]:
        return type(self), (str(self),)  # a search does not go to another process


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether Python or torch could not get the memory that it asked for.

    Torch says so on a GPU by a type of its own, on a CPU by the words of a RuntimeError; a library
    that does not fit while it is loaded, by those of an ImportError.
    """
    said = ("allocate memory", "failed to map", "cannot map", "cannot create shared object")
    kind = type(error).__name__
    return kind in ("MemoryError", "OutOfMemoryError") or any(w in str(error) for w in said)


# what commands a terminal or reorders its text, and halves of surrogate pairs
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


LONGEST_WORD, LONGEST_SENTENCE = 200, 4000  # beyond them only beginning and end are shown


def short(sentence: str) -> str:
    """The sentence on one line, its sentences and words cut where they are too long."""
    line = re.sub(r"\s*\n\s*", " ", sentence)
    line = CONTROLS.sub(lambda found: ascii(found.group())[1:-1], line)
    words = re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: _ends(word.group(), 60), line)
    return words if len(words) <= LONGEST_SENTENCE else _ends(words, LONGEST_SENTENCE // 3)


def _ends(text: str, length: int) -> str:
    return f"{text[:length]}[…{len(text) - 2 * length} characters…]{text[-length:]}"


def shown(value: object) -> str:
    """What a user gave, as Python would write it; large values by their type alone."""
    try:
        text = repr(value)
        return text if len(text) <= LONGEST_WORD else _ends(text, 60)
    except (ValueError, RecursionError):  # more digits, or more levels, than Python prints
        return f"of type {type(value).__name__}, too large to show"


def unknown(what: str, name: object, valid: Iterable[str], besides: str = "") -> InputError:
    """The error for a name that is none of the ``valid`` ones, with the nearest of them.

    ``besides`` is said in place of the nearest.
    """
    names = list(valid)
    hint = besides or guess(name, names)
    return InputError(f"unknown {what} {shown(name)}; valid are: {', '.join(names)}{hint}")


def guess(name: object, valid: Iterable[str]) -> str:
    """A question after the nearest valid name, to end a sentence with; empty if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(str(name).lower(), valid, 1) if isinstance(name, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""
