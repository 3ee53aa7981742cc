"""A trainer is the text that gives it numbers by name, and what that text has a place for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import getsource
from pathlib import Path

from deepnet_theory.definitions.discovery import Folder
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.trainers.patterns import Pattern, Patterns, glob, names

PLACES = {"optimizer": "$optimizer", "eps": "$more", "betas": "$more"}  # in a pattern's text
STARTS = '''STARTS = [  # standard deviation, and which entries: axis, first, end
$runs
]


@torch.no_grad()
def initialise(model):
    """Draw the weights anew, before they are sharded; other parameters stay as they are."""
    for name, parameter in model.named_parameters():
        for pattern, runs in STARTS:
            if re.search(pattern, name):
                for std, axis, first, end in runs:
                    part = parameter if end is None else parameter.narrow(axis, first, end - first)
                    part.normal_(0.0, std)
'''


@dataclass(frozen=True)
class Trainer:
    """How a trainer of a ``version`` takes patterns, by that version's source.

    ``whole`` is a module of Python in which ``$groups`` are texts of ``group``, one a pattern.
    There ``$names`` is an expression, ``$globs`` are shell patterns, ``$more`` are epsilon and
    betas as arguments; the pattern's fields go by their names. ``optimizers`` has the trainer's
    names for ours (None: any is taken). ``write`` makes the whole text in place of these.
    """

    version: str
    whole: str = ""
    group: str = ""
    imports: tuple[str, ...] = ()
    optimizers: Mapping[str, str] | None = None
    write: Callable[[Patterns], str] | None = None
    name: str = ""

    def text(self, patterns: Patterns) -> str:
        """What to give the trainer; :class:`Refusal` for a number that it has no place for."""
        first = patterns.rows[0]
        for row in patterns.rows:
            if self.optimizers is not None and row.optimizer not in self.optimizers:
                known = f"{self.version} takes {', '.join(self.optimizers)} by name pattern"
                raise Refusal(f"{known}, and not {row.optimizer}; --for torch takes any optimizer")
            for number, place in PLACES.items():
                one, other = getattr(first, number), getattr(row, number)
                if one != other and place not in self.group and self.write is None:
                    raise Refusal(
                        f"{self.version} has no {number} by pattern, and {first.role} takes {one} "
                        f"where {row.role} takes {other}; --for torch has a place for it"
                    )
        return self._module(patterns) if self.write is None else self.write(patterns)

    def _module(self, patterns: Patterns) -> str:
        """The rule, lines of the forward pass, the groups and the initial sizes, in Python."""
        texts = [filled(self.group, **self._places(row, patterns)) for row in patterns.rows]
        places = self._places(patterns.rows[0], patterns) | {"groups": "\n".join(texts)}
        places |= {"lr": repr(patterns.lr), "weight_decay": repr(patterns.weight_decay)}
        runs = (
            filled("    (\n        $names,\n        $runs,\n    ),", names=called(t), runs=f"{r}")
            for r, t in patterns.starts.items()
        )
        head = [f'"""{patterns.model} for {self.version}.', "", patterns.about, '"""', ""]
        head += ["import re", "", "import torch", *self.imports, ""]
        head += (f"# In the forward pass: {line}" for line in patterns.lines)
        head += (f"# Note: {remark}" for remark in patterns.remarks)
        drawn = filled(STARTS, runs="\n".join(runs))
        parts = "\n".join(head), getsource(names), filled(self.whole, **places), drawn
        return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"

    def _places(self, row: Pattern, whole: Patterns) -> dict[str, str]:
        """The texts of a pattern, by their places."""
        shell = row.names if "$globs" in self.group else ()
        more = {name: getattr(row, name) for name in ("eps", "betas")}
        return {
            **{name: repr(value) for name, value in vars(row).items()},
            "role": row.role,
            "optimizer": (self.optimizers or {}).get(row.optimizer, row.optimizer),
            "names": called(row.names),
            "globs": "\n".join(f'"{glob(n, whole.parameters)}",' for n in shell),
            "more": "\n".join(f"{name}={v!r}," for name, v in more.items() if v is not None),
        }


def called(templates: Iterable[str]) -> str:
    """A call of ``names``, as code."""
    texts = [f'"{template}"' for template in templates]
    lines = "".join(f"    {text},\n" for text in texts)
    return f"names({texts[0]})" if len(texts) == 1 else f"names(\n{lines})"


def filled(template: str, **places: str) -> str:
    """The template with texts in their places, each line of a text as far in as the first."""
    lines = []
    for line in template.split("\n"):
        space = line[: len(line) - len(line.lstrip())]
        text = re.sub(r"\$(\w+)", lambda place: places[place[1]], line)
        if text.strip() or not line.strip():
            lines.append(text.replace("\n", f"\n{space}"))
    return "\n".join(lines)


@cache
def trainers() -> Mapping[str, Trainer]:
    return Folder(Path(__file__).parent / "forms", Trainer)
