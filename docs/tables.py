"""Writes the generated blocks of the README: the rules and the findings.

    python docs/tables.py [--check]

A block is between ``<!-- NAME -->`` and ``<!-- end -->``. ``--check`` writes nothing and says
whether all blocks are current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import deepnet_theory as dt
from deepnet_theory.definitions.rule import FIRST, TO_TRAIN_WITH, Rule
from deepnet_theory.report.notation import formula_latex

README = Path(__file__).parent.parent / "README.md"
ALIKE = {"sgd": "SGD, momentum", "adam": "Adam, AdamW, Lion, Muon", "lamb": "LAMB"}
PLACEMENTS = {"post-ln": "post-LN", "pre-ln": "pre-LN"}
FINDINGS = {  # of a claim: the author of its sentence, and what a reader does differently
    "deepnet-adam": (
        "DeepNet",
        "But one Adam update grows as √N. Take the Adam rule, or divide the learning rate by √N.",
    ),
    "deepnet-vector-parameters": (
        "DeepNet",
        "The matrices alone do. Give norm gains and biases their own rates (`parameter_groups`).",
    ),
    "su-query-key": (
        "Su",
        "Under LAMB their share is constant in depth. Count query and key there.",
    ),
    "su-prenorm-needed": (
        "Su",
        "Under Adam an update grows as √N. Use the rule. Under SGD plain pre-LN nearly balances.",
    ),
    "width-lamb": (
        "Gupta et al.",
        "Where updates are aligned, multiply LAMB's rate of hidden matrices by d^(−1/2).",
    ),
}


def rules() -> list[str]:
    """α, β and κ of the recommended and the published rule of each placement and optimizer."""
    head = f"| norm | optimizer | {TO_TRAIN_WITH}: α, β | {FIRST} (Su): α, β |"
    lines = [head, "|---" * 4 + "|"]
    for name, where in PLACEMENTS.items():
        alike: dict[str, list[str]] = {}
        for optimizer, told in ALIKE.items():
            derivation = dt.derive(optimizer=optimizer, placement=name)
            both = (_cell(rule) for rule in (derivation.rule, derivation.published))
            alike.setdefault(" | ".join(both), []).append(told)
        lines += (f"| {where} | {', '.join(named)} | {cells} |" for cells, named in alike.items())
    return lines


def _cell(rule: Rule | None) -> str:
    if rule is None:
        return "refused"
    (entry,) = rule.entries
    rate = "" if entry.rate == "1" else f"; κ = ${formula_latex(entry.rate)}$"
    return f"${formula_latex(entry.alpha)}$, ${formula_latex(entry.beta)}${rate}"


def findings() -> list[str]:
    """One line a claim: the sentence that was tried, its verdict, and what to do."""
    from deepnet_theory.cli.claims import PACKAGE, runner

    claims, lines = runner(), []
    for name, (author, advice) in FINDINGS.items():
        one = claims.claim(name)
        file = claims.path_of(Path(PACKAGE), name).as_posix()
        tried = f"*{author}: {one.statement}* [{one.standing}]({file})."
        lines.append(f"- {tried} {advice}")
    return lines


BLOCKS: dict[str, Callable[[], list[str]]] = {"rules": rules, "findings": findings}


def written(text: str) -> str:
    """The text with every generated block made anew."""
    for name, block in BLOCKS.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        content = "\n".join(block())
        text, count = re.subn(pattern, lambda m, c=content: f"{m[1]}{c}\n{m[2]}", text, flags=re.S)
        if count != 1:
            raise ValueError(f"the README has the block {name!r} {count} times")
    return text


def main() -> int:
    """Write the README, or say whether it is current."""
    old = README.read_text(encoding="utf-8")
    new = written(old)
    if "--check" in sys.argv[1:]:
        print("README.md is current" if new == old else "README.md is stale: python docs/tables.py")
        return int(new != old)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
