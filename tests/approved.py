"""Approved texts: what constructed values are printed as, read once and held since."""

import os
from pathlib import Path


def approve(file, shown):
    """Hold a text against its file, which ``make outputs`` writes anew."""
    if os.environ.get("APPROVE"):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text(shown, encoding="utf-8")
    assert shown == Path(file).read_text(encoding="utf-8")
