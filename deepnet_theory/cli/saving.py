"""Results written into files; a part of one never replaces a whole one."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deepnet_theory.cli.options import Talk
from deepnet_theory.cli.streams import say
from deepnet_theory.spec.files import write_text


def deliver(show: Callable[[], object], *saves: Callable[[], object]) -> None:
    """Show a result, then save it; each is tried, whatever becomes of the others.

    A full disk takes nothing off the screen, a closed pipe nothing off the disk.
    """
    with ExitStack() as after:
        for write in reversed(saves):
            after.callback(write)
        show()


def save_page(file: str | None, result: Any, talk: Talk, whole: bool = True) -> None:
    """Write a result as a page of HTML, where a file is given."""
    if file is not None:
        from deepnet_theory.report.composers import document
        from deepnet_theory.report.html import page

        save(file, lambda one: page(document(one)), result, talk, whole)


def save(
    file: str | None, written: Callable[[Any], str], result: Any, talk: Talk, whole: bool = True
) -> None:
    """Write a result, and where it went; part of one replaces no whole one, and goes beside it."""
    if file is None:
        return
    path = Path(file)
    if not whole and path.is_file() and not _is_part(path):
        path = path.with_name(f"{path.name}.partial")
    write_text(path, written(result))
    if not talk.quiet:
        say(f"wrote {path}")


def _is_part(path: Path) -> bool:
    """Whether a file holds part of a result, as the commands write it when interrupted."""
    try:
        return json.loads(path.read_bytes()).get("complete") is False
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
