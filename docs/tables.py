"""Writes the generated blocks of the README: the rules, the cross table, the findings.

    python docs/tables.py [--check]

A block stands between ``<!-- NAME -->`` and ``<!-- end -->``; ``--check`` only says whether all
are current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import deepnet_theory as dt
from deepnet_theory.definitions.rule import FIRST, TO_TRAIN_WITH, Rule
from deepnet_theory.report.notation import formula_latex

README = Path(__file__).parent.parent / "README.md"
OPTIMIZERS = ("sgd", "adam", "lamb")
SHOWN = {"sgd": "SGD", "adam": "Adam", "lamb": "LAMB"}
ALIKE = {"sgd": "SGD, momentum", "adam": "Adam, AdamW, Lion, Muon", "lamb": "LAMB"}
PLACEMENTS = {"post-ln": "post-LN", "pre-ln": "pre-LN", "res-post-ln": "res-post-LN"}
FINDINGS = (
    "deepnet-adam",
    "deepnet-vector-parameters",
    "su-query-key",
    "su-prenorm-needed",
    "schemes-quartic",
)


def rules() -> list[str]:
    """α and β (and κ) of both rules, that to train with first; a refusal is shown as one."""
    head = f"| norm | optimizer | {TO_TRAIN_WITH}: α, β | {FIRST}: α, β |"
    lines, conditions = [head, "|---" * 4 + "|"], {}
    for name, where in PLACEMENTS.items():
        for optimizer, told in ALIKE.items():
            derivation = dt.derive(optimizer=optimizer, placement=name)
            both = (_cell(derivation, rule) for rule in (derivation.training, derivation.rule))
            lines.append(f"| {where} | {told} | {' | '.join(both)} |")
        if condition := derivation.training_condition:
            conditions[where] = condition
    return lines + [f"\n**To train {where}.** {told}" for where, told in conditions.items()]


def _cell(derivation: dt.Derivation, rule: Rule | None) -> str:
    if rule is None:
        return "refused"
    (entry,) = rule.entries
    rate = "" if entry.rate == "1" else f"; κ = ${formula_latex(entry.rate)}$"
    epsilon = "".join(f"; norm's ε × ${formula_latex(by)}$" for _, by in entry.norm_epsilon)
    return f"${formula_latex(entry.alpha)}$, ${formula_latex(entry.beta)}${rate}{epsilon}"


def cross() -> list[str]:
    """The predicted exponent of every rule (rows) under every optimizer (columns)."""
    from deepnet_theory.sizes.exponents import cross_table

    table = cross_table(OPTIMIZERS)
    lines = ["| rule of ↓, stepped by → | " + " | ".join(SHOWN[n] for n in OPTIMIZERS) + " |"]
    lines.append("|---" * (len(OPTIMIZERS) + 1) + "|")
    for rule in OPTIMIZERS:
        cells = [_power(table[rule, o]) for o in OPTIMIZERS]
        lines.append(f"| {SHOWN[rule]} | {' | '.join(cells)} |")
    return lines


def _power(exponent: Fraction) -> str:
    return "constant" if exponent == 0 else f"$N^{{{exponent}}}$"


def findings() -> list[str]:
    """One line a claim: what was found, with a link to its check."""
    from deepnet_theory.cli.claims import PACKAGE, runner

    claims, lines = runner(), []
    for name in FINDINGS:
        one = claims.claim(name)
        sentence = re.split(r"(?<=[.:;])\s", one.finding, maxsplit=1)[0].rstrip(".:;")
        file = claims.path_of(Path(PACKAGE), name).as_posix()
        lines.append(f"- **{one.standing}**: [{name}]({file}): {sentence}.")
    return lines


BLOCKS: dict[str, Callable[[], list[str]]] = {"rules": rules, "cross": cross, "findings": findings}


def written(text: str) -> str:
    """The text with every generated block made anew."""
    for name, block in BLOCKS.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        content = "\n".join(block())
        text, count = re.subn(pattern, lambda m, c=content: f"{m[1]}{c}\n{m[2]}", text, flags=re.S)
        if count != 1:
            raise ValueError(f"the block {name!r} stands {count} times in the README")
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
