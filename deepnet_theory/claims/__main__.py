"""``python -m deepnet_theory.claims page`` writes the pages of recorded findings.

With ``--check`` it only tells whether they are current; neither measures anything.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from deepnet_theory.claims.page import pages, stale
from deepnet_theory.spec.files import write_text


def main(words: Sequence[str]) -> int:
    """The exit code of the command ``words``."""
    if words == ["page"]:
        for path, text in pages().items():
            write_text(path, text)
            print(f"wrote {path}")
        return 0
    if words == ["page", "--check"]:
        old = stale()
        for path in old:
            print(f"{path} is stale: run it without --check")
        print(f"{len(old)} of {len(pages())} pages are stale")
        return 1 if old else 0
    print("usage: python -m deepnet_theory.claims page [--check]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
