"""The report: from a rule to its measurement, its constants and its provenance."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
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


def document(
    derivation: Derivation,
    verification: Result,
    constants: Sequence[Constants],
    command: str = "",
) -> doc.Document:
    """Everything on one page; ``command`` is the way to make it again."""
    stated = {a.name: a.statement for a in derivation.assumptions}
    measured = experiment.answer(verification)
    body: doc.Body = (
        *rule.box(derivation),
        *rule.meaning(derivation),
        ("Derivation: ", *rule.proved(derivation), ". Measurement: ", *measured),
        doc.Document("The constants", _constants(derivation, constants)),
        doc.Document("The rule", tuple(rule.consequences(derivation))),
        doc.Document("The setting", (rule.setting(derivation.selection),)),
        doc.Document("The measurement", experiment.sections(verification)),
        doc.Document(
            "The assumptions", (experiment.assumptions(verification.assumptions, stated),)
        ),
        doc.Document("The derivation", (rule.conclusion(derivation), *rule.steps(derivation))),
        doc.Document("Provenance", (_provenance(verification, command),)),
    )
    return doc.Document(rule.title(derivation.selection), body)


def _constants(derivation: Derivation, constants: Sequence[Constants]) -> tuple[doc.Block, ...]:
    """α and β of every sublayer, how to build the model, and the files to build it from."""
    rows = (
        (f"{part.layers} {part.name}", s.kind, *(f"{v:.6g}" for v in (s.alpha, s.beta, c.eta)))
        for c in constants
        for part in c.parts
        for s in part.sublayers
    )
    row, measured = constants[0].origin.get("row"), derivation.rows[0].named
    return (
        f"Measured here: the rule {measured}. In the constants: the rule {row}." * bool(row),
        doc.table("layers | sublayer | >α | >β | >factor on η", rows),
        doc.Listing(USE),
        *(
            doc.Document(
                f"constants.json of {', '.join(f'{part.layers} {part.name}' for part in c.parts)}",
                (doc.Listing(c.to_json()),),
                folded=True,
            )
            for c in constants
        ),
    )


def _provenance(v: Result, command: str) -> doc.Listing:
    """How the page was made, when, by what version and on what machine."""
    settings = "; ".join(f"{k} {value}" for k, value in v.settings.items())
    software = ", ".join(f"{name} {version}" for name, version in v.provenance.versions.items())
    rows = {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "deepnet-theory": __version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "device": v.provenance.ran,
        "settings": settings,
        "software": software,
    }
    return doc.Listing("\n".join(f"{label}: {value}" for label, value in rows.items() if value))
