"""The report: from a rule to its measurement, its constants and its provenance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deepnet_theory.definitions import __version__
from deepnet_theory.report import document as doc
from deepnet_theory.report import experiment, rule

if TYPE_CHECKING:
    from deepnet_theory.definitions.constants import Constants
    from deepnet_theory.definitions.measurement import Result
    from deepnet_theory.proof.derivation import Derivation

USE = """\
from deepnet_theory import build, parameter_groups

model = build("constants.json")  # a torch.nn.Module on token ids; the file is below
groups = parameter_groups(model, lr=1e-3)  # for a torch optimizer
# deepnet_theory.apply_(model, constants) changes your own model
"""


def exported(constants: Constants) -> doc.Document:
    """Constants by themselves: the numbers of every kind of sublayer, and what to know first."""
    said, over = [], f", over a base of width {constants.base.width}" if constants.base else ""
    for label, words in (("Note", constants.condition), ("Warning", constants.warning)):
        first, *more = re.split(r"(?<=\.) (?=[A-Z])", words)
        count = f" 1 of {1 + len(more)}" * bool(more)
        said.append(f"{label}{count}: {first}" * bool(words))
    title = f"Constants of {constants.optimizer}, {constants.placement}{over}"
    return doc.Document(title, (*_numbers(constants), *said))


def _numbers(constants: Constants) -> Iterator[doc.Block]:
    rows, gains = [], []
    for part in constants.parts:
        for s in part.sublayers:
            alpha, beta, *rates = (f"{x:.6g}" for x in (s.alpha, s.beta, s.rate, constants.eta))
            if s.gains:
                beta, each = "-", ", ".join(f"{name} {g:.4g}" for name, g in s.gains.items())
                gains.append(f"Gains of the {part.name}'s {s.kind}: {each}.")
            rows.append((f"{part.layers} {part.name}", s.kind, alpha, beta, *rates))
    yield doc.table("layers | sublayer | >α | >β | >κ | >factor on η", rows)
    yield from gains


def document(
    derivation: Derivation, verification: Result, constants: Constants, command: str = ""
) -> doc.Document:
    """Everything on one page; ``command`` is the way to make it again."""
    v, row = verification, constants.origin.get("row")
    built: doc.Body = (
        f"Measured, and in the constants: the rule {row}." * bool(row),
        *_numbers(constants),
        doc.Listing(USE),
        doc.Document("constants.json", (doc.Listing(constants.to_json()),), folded=True),
    )
    steps: doc.Body = (
        rule.conclusion(derivation),
        *rule.steps(derivation),
        *rule.beside(derivation),
    )
    settings = "; ".join(f"{name} {value}" for name, value in v.settings.items())
    software = ", ".join(f"{name} {version}" for name, version in v.provenance.versions.items())
    told = {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "deepnet-theory": __version__,
        "device": v.provenance.ran,
        "settings": settings,
        "software": software,
    }
    lines = "\n".join(f"{label}: {words}" for label, words in told.items() if words)
    body: doc.Body = (
        *rule.box(derivation),
        *rule.meaning(derivation),
        ("Derivation: ", *rule.proved(derivation), ". Measurement: ", *experiment.answer(v)),
        doc.Document("The constants", built),
        doc.Document("The measurement", experiment.sections(v)),
        doc.Document("The assumptions", (experiment.assumptions(v.assumptions),)),
        doc.Document("The derivation", steps),
        doc.Document("Provenance", (doc.Listing(lines),)),
    )
    return doc.Document(rule.title(derivation.selection), body)
