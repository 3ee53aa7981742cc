"""``python -m deepnet_theory.claims page`` writes the page of recorded findings.

With ``--check`` it only tells whether the page is current; neither measures anything.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from deepnet_theory.claims.folder import location
from deepnet_theory.claims.page import PAGE, is_current, markdown


def main(words: Sequence[str]) -> int:
    """The exit code of the command ``words``."""
    if words == ["page"]:
        from deepnet_theory.spec.files import write_text

        write_text(location() / PAGE, markdown())
        print(f"wrote {location() / PAGE}")
        return 0
    if words == ["page", "--check"]:
        current = is_current()
        print(f"{PAGE} is {'current' if current else 'stale: run it without --check'}")
        return 0 if current else 1
    print("usage: python -m deepnet_theory.claims page [--check]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
