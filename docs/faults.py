"""One page of the site for every fault: the line that makes the fault, and the audit's report.

A fault is planted in the text of ``paths/my_deepnorm.py``; the model of that text is audited.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import deepnet_theory as dt
from deepnet_theory.report.formatters import composed
from deepnet_theory.report.html import fragment

SOURCE = Path(__file__).parent / "paths" / "my_deepnorm.py"
TABLE = "docs/faults.md"
FOLDER = "faults"
LAYERS = 6
SUMS = ("norm1(self.alpha * x + self.att", "norm2(self.alpha * x + self.fc2")


@dataclass(frozen=True)
class Fault:
    """A fault: its page, its row in the table, and how the faithful model's source becomes it."""

    name: str
    title: str
    edits: tuple[tuple[str, str], ...]


FAULTS = (
    Fault("beta-upside-down", "β inverted: 1/β instead of β",
          (("beta = (8 * depth) ** (-1 / 4)", "beta = (8 * depth) ** (1 / 4)"),)),
    Fault("alpha-on-the-branch", "α on the branch",
          tuple((s, s.replace("self.alpha * x +", "x + self.alpha *")) for s in SUMS)),
    Fault("packed-not-scaled", "packed qkv not scaled",
          (("(1.0, 1.0, beta)", "(1.0, 1.0, 1.0)"),)),
    Fault("packed-drawn-as-one", "packed qkv drawn as one matrix",
          (("qkv_as_one=False", "qkv_as_one=True"),)),
    Fault("another-deviation", "β on another standard deviation (1/√fan_in, 0.02)",
          (("xavier_normal_(linear.weight, gain=beta)",
            "normal_(linear.weight, std=0.02 * beta)"),)),
    Fault("alpha-not-used", "α computed and not used",
          tuple((s, s.replace("self.alpha * x", "x")) for s in SUMS)),
    Fault("pre-norm-left-on", "a pre-norm flag left on",
          (("self.norm1(self.alpha * x + self.attention(x))",
            "self.alpha * x + self.attention(self.norm1(x))"),
           ("self.norm2(self.alpha * x + self.fc2(F.relu(self.fc1(x))))",
            "self.alpha * x + self.fc2(F.relu(self.fc1(self.norm2(x))))"))),
    Fault("alpha-of-another-depth", "α of another depth, or the encoder's in the decoder",
          (("Layer((2 * depth)", "Layer((4 * depth)"),)),
    Fault("constants-of-sgd", "SGD's constants under Adam", ()),
)  # fmt: skip


def pages() -> dict[str, str]:
    """The pages, by their place on the site."""
    return {f"{FOLDER}/{fault.name}.md": "\n".join(_page(fault)) + "\n" for fault in FAULTS}


def linked(page: str) -> str:
    """The page of all faults, whose rows lead to their own pages."""
    for fault in FAULTS:
        page = page.replace(f"| {fault.title} |", f"| [{fault.title}]({FOLDER}/{fault.name}.md) |")
    return page


def row(fault: Fault) -> tuple[str, str]:
    """The effect of a fault and what `audit` prints, from the table."""
    page = (Path(__file__).parents[1] / TABLE).read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {fault.title} |"))
    does, shows = line.strip("| ").split(" | ")[1:]
    return does, shows


def source(fault: Fault) -> str:
    """The model's source with the fault in it."""
    text = SOURCE.read_text(encoding="utf-8")
    for before, after in fault.edits:
        assert text.count(before) == 1, f"{fault.name}: {SOURCE.name} has not one {before!r}"
        text = text.replace(before, after)
    return text


def audited(fault: Fault) -> Any:
    """The audit of the model with the fault."""
    import torch

    torch.manual_seed(0)
    made: dict[str, Any] = {"__name__": fault.name}
    exec(compile(source(fault), f"{fault.name}.py", "exec"), made)  # our own text
    return dt.audit(*made["faithful"](LAYERS), optimizer="adamw")


def _said(fault: Fault) -> str:
    audit = audited(fault)
    seen = audit.verdict is dt.Verdict.REFUTED and bool(audit.differences) is bool(fault.edits)
    assert seen, f"{fault.name} is not seen"
    return fragment(replace(composed(audit), title=""))


def _page(fault: Fault) -> Iterator[str]:
    does, shows = row(fault)
    first = fault.title[0]
    yield f"# {first.upper() if first.isascii() else first}{fault.title[1:]}\n"  # β, and not Β
    yield f"Effect: {does}. What `audit` prints: {shows}.\n"
    right = SOURCE.read_text(encoding="utf-8").splitlines()
    changed = [
        line
        for line in difflib.unified_diff(source(fault).splitlines(), right, lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    if changed:
        yield "In [a plain DeepNorm](../paths/README.md#is-my-deepnorm-right)"
        yield "the red line is the fault. The green line fixes the model:\n"
        yield "\n".join(("```diff", *changed, "```\n"))
    yield f"## The audit\n\n{LAYERS} layers, AdamW:\n"
    yield _said(fault)
    yield "\n[The other faults](../faults.md); [audit your model](../audit.md)."
