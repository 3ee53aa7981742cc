"""The rules of the post as texts in N, and the matrices that λ scales."""

from __future__ import annotations

# Transcribed from Su's table; what the engine derives is compared with these in su-table.
PUBLISHED = {
    "sgd": ("(2*N)**(1/4)", "(2*N)**(-1/4)"),
    "adam": ("(2*N)**(1/2)", "(2*N)**(-1/2)"),
    "lamb": ("1", "(2*N)**(-1/2)"),
}

SCALED = ("value", "output", "fc1", "fc2")
