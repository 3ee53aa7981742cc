"""Docstrings on the page of the API: what they write in reStructuredText, as the site reads it."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object


class Docstrings(Extension):
    """Formulas between dollars, which the site draws, and names of things as code."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Called by griffe for every object that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = written(obj.docstring.value)


def written(text: str) -> str:
    """A docstring's formulas and roles in the site's Markdown."""
    block = r"^\.\. math::\s+(.+(?:\n +\S.*)*)"
    text = re.sub(block, lambda found: f"$$\n{found[1]}\n$$", text, flags=re.M)
    text = re.sub(r":math:`([^`]+)`", lambda found: f"${found[1]}$", text)
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
