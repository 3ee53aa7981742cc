"""The report: from a rule to its measurement, its constants and its provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepnet_theory.report import document as doc
from deepnet_theory.report import experiment, rule

if TYPE_CHECKING:
    from deepnet_theory.definitions.constants import Constants
    from deepnet_theory.definitions.measurement import Verification
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
    verification: Verification,
    constants: Sequence[Constants],
    rivals: Sequence[Verification] = (),
    command: str = "",
    made: Mapping[str, str] | None = None,
) -> doc.Document:
    """Everything on one page; ``command`` is the way to make it again, ``made`` when and where."""
    sections = (
        doc.Section("The rule", tuple(_rule(derivation))),
        doc.Section("The setting", (rule.setting(derivation.selection),)),
        doc.Section("The measurement", experiment.sections(verification, rivals)),
        doc.Section("The assumptions", _assumptions(derivation, verification)),
        doc.Section("Learning rates", _rates(constants)),
        doc.Section("The derivation", _steps(derivation)),
        doc.Section("Using it", _use(derivation, verification, constants, rivals)),
        doc.Section("Provenance", (_provenance(verification, command, made or {}),)),
    )
    level = experiment.level(verification)
    measured = (*experiment.answer(verification), *((" ", *level) if level else ()))
    verdicts = ("Derivation: ", *rule.proved(derivation), ". ", "Measurement: ", *measured)
    answer: tuple[doc.Block, ...] = (
        doc.Paragraph(_QUESTION, aside=True),
        rule.box(replace(derivation, values=()), to_train=True),
        *_of_which_rule(derivation, constants[0].origin),
        _gains(constants),
        *doc.paragraphs((rule.reach(derivation), verdicts)),
    )
    return doc.Document(rule.title(derivation.selection), answer, sections)


def _of_which_rule(derivation: Derivation, origin: Mapping[str, Any]) -> Iterator[doc.Paragraph]:
    measured, handed = derivation.rows[0].named, origin.get("row")
    if measured == handed:
        yield doc.Paragraph(f"Measured here, and in the constants: the rule {measured}.")
    elif handed is not None:
        closure = doc.Code(f"--closure {origin['select']['closure']}")
        both = f"Measured here: the rule {measured}. In the constants: the rule {handed}, which "
        yield doc.Paragraph((both, closure, " derives and measures."))


def _rule(derivation: Derivation) -> Iterator[doc.Block | doc.Section]:
    yield rule.meaning(derivation)
    in_depth = derivation.in_depth if derivation.orders else ""
    yield from doc.paragraphs((rule.same_rule(derivation), in_depth))
    yield from rule.consequences(derivation)
    yield doc.Section("Remarks", rule.remarks(derivation), folded=True)


def _assumptions(derivation: Derivation, verification: Verification) -> tuple[doc.Block, ...]:
    stated = {a.name: a.statement for a in derivation.assumptions}
    measured = {a.name for a in verification.assumptions if a.estimate is not None}
    named = {*stated, *(a.name for a in verification.assumptions)}
    share = "each was" if measured == named else f"{len(measured)} of {len(named)} were"
    return (
        doc.Paragraph(f"The steps hold given these; {share} measured on the same networks."),
        experiment.assumptions(verification.assumptions, stated),
    )


def _steps(derivation: Derivation) -> tuple[doc.Block | doc.Section, ...]:
    where = (
        "Each step opens in its section, with its reason and what it rests on; in a terminal ",
        doc.Code("deepnet-theory derive --steps"),
        " tells them all, of the same selection. On paper stand the sections that were open.",
    )
    return (
        doc.Paragraph(rule.conclusion(derivation)),
        doc.Paragraph(where, aside=True),
        *rule.steps(derivation),
    )


def _gains(constants: Sequence[Constants]) -> doc.Table:
    rows = (
        (_layers(c), part.name, ", ".join(names), *(f"{value:.6g}" for value in (*values, c.eta)))
        for c in constants
        for part in c.parts
        for values, names in doc.gathered(
            ((s.alpha, s.beta), s.kind) for s in part.sublayers
        ).items()
    )
    return doc.table("layers | of | sublayers | >α | >β | >factor on η", rows)


def _rates(constants: Sequence[Constants]) -> tuple[doc.Block, ...]:
    """The learning rates of what β does not reach; nothing where all are those of the rule."""
    rows = [
        (_layers(c), part.name, f"{name} of {', '.join(kinds)}", f"{rate:.6g}")
        for c in constants
        for part in c.parts
        for (name, rate), kinds in doc.gathered(
            ((name, parameter.rate), s.kind)
            for s in part.sublayers
            for name, parameter in s.parameters.items()
            if parameter.rate != 1
        ).items()
    ]
    if not rows:
        return ()
    why = (
        "Parameters that beta does not reach move the output more than the matrices that the rule "
        "balances. These learning-rate multipliers give them the same weight:"
    )
    table = doc.table("layers | of | parameters | >multiplier", rows)
    return rule.COMPUTED, doc.Paragraph(why), table


def _layers(constants: Constants) -> str:
    return ", ".join(f"{part.layers} {part.name}" for part in constants.parts)


def _use(
    derivation: Derivation,
    verification: Verification,
    constants: Sequence[Constants],
    rivals: Sequence[Verification],
) -> tuple[doc.Block, ...]:
    files = {}
    for c in constants:
        depths = "".join(f"-{part.layers}" for part in c.parts) if len(constants) > 1 else ""
        files[used := f"constants{depths}.json"] = c.to_json()
    files |= {"derivation.json": derivation.to_json(), "verification.json": verification.to_json()}
    for rival in rivals:
        files[f"verification-{str(rival.rule['name']).replace(', ', '-')}.json"] = rival.to_json()
    apply = doc.Code("deepnet_theory.apply_(model, constants)")
    end = ", which changes it in place or refuses with the reason."
    return (
        doc.Paragraph("The constants, the derivation and the measurements, to be saved:"),
        doc.Files(tuple(files.items())),
        doc.Listing(_SNIPPET.replace("constants.json", used)),
        doc.Paragraph(("A model of your own takes them with ", apply, end)),
    )


def _provenance(v: Verification, command: str, made: Mapping[str, str]) -> doc.Terms:
    settings = "; ".join(f"{name} {_shown(value)}" for name, value in v.measure.items())
    software = ", ".join(f"{name} {version}" for name, version in v.versions.items())
    rows = {"command": command, **made, "device": f"{v.device}, {v.seconds:.1f} s"}
    rows |= {"settings": settings, "software": software}
    return doc.Terms(tuple((label, doc.Code(value)) for label, value in rows.items() if value))


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
