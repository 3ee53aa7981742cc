"""The report: from a rule to its measurement, its constants and its provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report import experiment, rule

if TYPE_CHECKING:
    from deepnet_theory.definitions.constants import Constants
    from deepnet_theory.definitions.measurement import Result
    from deepnet_theory.proof.derivation import Derivation

_QUESTION = (
    "How must the residual multiplier α and the initialisation gain β of this network depend on "
    "its depth, so that one step of this optimizer changes the output by as much at any depth?"
)
_SNIPPET = """\
from deepnet_theory import build, parameter_groups

model = build("constants.json")  # a torch.nn.Module on token ids
groups = parameter_groups(model, lr=1e-3)  # for a torch optimizer
"""


def document(
    derivation: Derivation,
    verification: Result,
    constants: Sequence[Constants],
    rivals: Sequence[Result] = (),
    command: str = "",
    made: Mapping[str, str] | None = None,
) -> doc.Document:
    """Everything on one page; ``command`` is the way to make it again, ``made`` when and where."""
    stated = {a.name: a.statement for a in derivation.assumptions}
    level = experiment.level(verification)
    measured = (*experiment.answer(verification), *((" ", *level) if level else ()))
    verdicts = ("Derivation: ", *rule.proved(derivation), ". ", "Measurement: ", *measured)
    concluded = doc.Paragraph(rule.conclusion(derivation))
    return doc.Document(
        rule.title(derivation.selection),
        (
            doc.Paragraph(_QUESTION, aside=True),
            rule.box(replace(derivation, values=()), to_train=True),
            *_of_which_rule(derivation, constants[0]),
            _gains(constants),
            *rule.what_it_means(derivation),
            doc.Paragraph(verdicts),
        ),
        (
            doc.Section("The rule", (rule.meaning(derivation), *rule.consequences(derivation))),
            doc.Section("The setting", (rule.setting(derivation.selection),)),
            doc.Section("The measurement", experiment.sections(verification, rivals)),
            doc.Section("The assumptions",
                        (experiment.assumptions(verification.assumptions, stated),)),
            doc.Section("The derivation", (concluded, *rule.steps(derivation))),
            doc.Section("Using it", tuple(_use(derivation, verification, constants, rivals))),
            doc.Section("Provenance", (_provenance(verification, command, made or {}),)),
        ),
    )  # fmt: skip


def _of_which_rule(derivation: Derivation, constants: Constants) -> Iterator[doc.Paragraph]:
    measured, handed = derivation.rows[0].named, constants.origin.get("row")
    if measured == handed:
        yield doc.Paragraph(f"Measured here, and in the constants: the rule {measured}.")
    elif handed is not None:
        closure = doc.Code(f"--closure {constants.origin['select']['closure']}")
        both = f"Measured here: the rule {measured}. In the constants: the rule {handed}, which "
        yield doc.Paragraph((both, closure, " derives and measures."))


def _gains(constants: Sequence[Constants]) -> doc.Table:
    """α, β and the factor on η of every sublayer."""
    rows = []
    for c in constants:
        layers = ", ".join(f"{part.layers} {part.name}" for part in c.parts)
        for part in c.parts:
            alike = doc.gathered(((s.alpha, s.beta), s.kind) for s in part.sublayers)
            for values, names in alike.items():
                cells = (f"{value:.6g}" for value in (*values, c.eta))
                rows.append((layers, part.name, ", ".join(names), *cells))
    return doc.table("layers | of | sublayers | >α | >β | >factor on η", rows)


def _use(
    derivation: Derivation,
    verification: Result,
    constants: Sequence[Constants],
    rivals: Sequence[Result],
) -> Iterator[doc.Block]:
    """The data to save, and how to build the model or change your own."""
    files = {}
    for c in constants:
        depths = "".join(f"-{part.layers}" for part in c.parts) if len(constants) > 1 else ""
        files[used := f"constants{depths}.json"] = c.to_json()
    files |= {"derivation.json": derivation.to_json(), "verification.json": verification.to_json()}
    for rival in rivals:
        files[f"verification-{str(rival.of['rule']['name']).replace(', ', '-')}.json"] = (
            rival.to_json()
        )
    yield doc.Paragraph("Save the constants, the derivation and the measurements:")
    yield doc.Files(tuple(files.items()))
    yield doc.Listing(_SNIPPET.replace("constants.json", used))
    apply = doc.Code("deepnet_theory.apply_(model, constants)")
    yield doc.Paragraph(("Change your own model with ", apply, "."))


def _provenance(v: Result, command: str, made: Mapping[str, str]) -> doc.Terms:
    settings = "; ".join(f"{k} {_shown(value)}" for k, value in v.settings.items())
    software = ", ".join(f"{name} {version}" for name, version in v.provenance.versions.items())
    rows = {
        "command": command,
        **made,
        "device": v.provenance.ran,
    }
    rows |= {"settings": settings, "software": software}
    return doc.Terms(tuple((label, doc.Code(value)) for label, value in rows.items() if value))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
