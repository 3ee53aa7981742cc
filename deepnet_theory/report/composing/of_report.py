"""The report: from a rule to its measurement, its constants and its provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.composing import of_derivation, of_verification

if TYPE_CHECKING:
    from deepnet_theory.spec.constants import Constants
    from deepnet_theory.spec.results.verification import Verification
    from deepnet_theory.symbolic.derivation import Derivation

_QUESTION = (
    "How must the residual multiplier α and the initialisation gain β of this network depend on "
    "its depth, so that one step of this optimizer changes the output by as much at any depth?"
)
_SNIPPET = """\
from deepnet_theory.runtime import build, load_constants, parameter_groups

constants = load_constants("constants.json")
model = build(constants)  # a torch.nn.Module on token ids
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
        doc.Section("The setting", (of_derivation.setting(derivation.selection),)),
        doc.Section("The measurement", of_verification.measurement(verification, rivals)),
        doc.Section("The assumptions", _assumptions(derivation, verification)),
        doc.Section("Learning rates", _rates(constants)),
        doc.Section("The derivation", _steps(derivation)),
        doc.Section("Using it", _use(derivation, verification, constants, rivals)),
        doc.Section("Provenance", (_provenance(verification, command, made or {}),)),
    )
    found = ("Measurement: ", *of_verification.answer(verification))
    if verification.level:
        found = (*found, " ", *of_verification.level(verification))
    proved = ("Derivation: ", *of_derivation.proved(derivation), ". ")
    return doc.Document(
        of_derivation.title(derivation.selection),
        (
            doc.Paragraph(_QUESTION, aside=True),
            of_derivation.rule(replace(derivation, values=())),
            *_of_which_rule(derivation, constants),
            _gains(constants),
            doc.Paragraph(of_derivation.reach(derivation)),
            doc.Paragraph((*proved, *found)),
        ),
        sections,
    )


def _of_which_rule(
    derivation: Derivation, constants: Sequence[Constants]
) -> Iterator[doc.Paragraph]:
    """Which of the two rules was measured, and which one the constants are of."""
    measured, handed = derivation.rows[0].named, constants[0].origin.get("row")
    if measured == handed:
        yield doc.Paragraph(f"Measured here, and in the constants: the rule {measured}.")
    elif handed is not None:
        closure = doc.Code(f"--closure {constants[0].origin['select']['closure']}")
        told = f"Measured here: the rule {measured}. In the constants: the rule {handed}, which "
        yield doc.Paragraph((told, closure, " derives and measures."))


def _rule(derivation: Derivation) -> Iterator[doc.Block | doc.Section]:
    """What its constants mean, whether it is stable in depth, and what follows from it."""
    yield of_derivation.meaning(derivation)
    if same := of_derivation.same_rule(derivation):
        yield doc.Paragraph(same)
    if derivation.orders:
        yield of_derivation.stability(derivation)
    yield from of_derivation.consequences(derivation)
    yield doc.Section("Remarks", of_derivation.remarks(derivation), folded=True)


def _assumptions(derivation: Derivation, verification: Verification) -> tuple[doc.Block, ...]:
    stated = {a.name: a.statement for a in derivation.assumptions}
    measured = {a.name for a in verification.assumptions if a.estimate is not None}
    every = {*stated, *(a.name for a in verification.assumptions)}
    told = "each was" if measured == every else f"{len(measured)} of {len(every)} were"
    return (
        doc.Paragraph(f"The steps hold given these; {told} measured on the same networks."),
        of_verification.assumptions(verification.assumptions, stated),
    )


def _steps(derivation: Derivation) -> tuple[doc.Block | doc.Section, ...]:
    """How much has been shown, where it stands in full, and the steps."""
    where = (
        "Each step opens in its section, with its reason and what it rests on; in a terminal ",
        doc.Code("deepnet-theory derive --steps"),
        " tells them all, of the same selection. On paper stand the sections that were open.",
    )
    return (
        doc.Paragraph(of_derivation.conclusion(derivation)),
        doc.Paragraph(where, aside=True),
        *of_derivation.steps(derivation),
    )


def _gains(constants: Sequence[Constants]) -> doc.Table:
    """α and β in numbers, for every kind of sublayer."""
    rows = []
    for c in constants:
        for part in c.parts:
            kinds: dict[tuple[float, float], list[str]] = {}
            for s in part.sublayers:
                kinds.setdefault((s.alpha, s.beta), []).append(s.kind)
            for values, names in kinds.items():
                shown = (f"{value:.6g}" for value in (*values, c.eta))
                rows.append((_layers(c), part.name, ", ".join(names), *shown))
    head = ("layers", "of", "sublayers", "α", "β", "factor on η")
    return doc.Table(head, tuple(rows), numbers=(3, 4, 5))


def _rates(constants: Sequence[Constants]) -> tuple[doc.Block, ...]:
    """The learning rates of what β does not reach; nothing where all are those of the rule."""
    rows = tuple(row for c in constants for row in _multipliers(c))
    if not rows:
        return ()
    told = (
        "Parameters that beta does not reach move the output more than the matrices that the rule "
        "balances. These learning-rate multipliers give them the same weight:"
    )
    head = ("layers", "of", "parameters", "multiplier")
    table = doc.Table(head, rows, numbers=(3,))
    return of_derivation.COMPUTED, doc.Paragraph(told), table


def _multipliers(constants: Constants) -> Iterator[tuple[doc.Words, ...]]:
    for part in constants.parts:
        kinds: dict[tuple[str, float], list[str]] = {}
        for s in part.sublayers:
            for name, own in s.parameters.items():
                if own.rate != 1:
                    kinds.setdefault((name, own.rate), []).append(s.kind)
        for (name, rate), of in kinds.items():
            words = (part.name, f"{name} of {', '.join(dict.fromkeys(of))}", f"{rate:.6g}")
            yield _layers(constants), *words


def _layers(constants: Constants) -> str:
    return ", ".join(f"{part.layers} {part.name}" for part in constants.parts)


def _use(
    derivation: Derivation,
    verification: Verification,
    constants: Sequence[Constants],
    rivals: Sequence[Verification],
) -> tuple[doc.Block, ...]:
    """The results as files, and what to do with the constants."""
    files = {_file_name(c, len(constants)): c.to_json() for c in constants}
    used = next(reversed(files))
    files |= {"derivation.json": derivation.to_json(), "verification.json": verification.to_json()}
    files |= {f"verification-{_slug(r)}.json": r.to_json() for r in rivals}
    apply = doc.Code("deepnet_theory.runtime.apply_(model, constants)")
    own = ("A model of your own takes them with ", apply, ", which changes it in place or refuses "
           "with the reason.")  # fmt: skip
    return (
        doc.Paragraph("The constants, the derivation and the measurements, to be saved:"),
        doc.Files(tuple(files.items())),
        doc.Listing(_SNIPPET.replace("constants.json", used)),
        doc.Paragraph(own),
    )


def _file_name(constants: Constants, of: int) -> str:
    depths = "".join(f"-{part.layers}" for part in constants.parts) if of > 1 else ""
    return f"constants{depths}.json"


def _slug(rival: Verification) -> str:
    """A rival's name as part of a file name."""
    return str(rival.rule["name"]).replace(", ", "-")


def _provenance(verification: Verification, command: str, made: Mapping[str, str]) -> doc.Terms:
    v = verification
    settings = "; ".join(f"{name} {_shown(value)}" for name, value in v.measure.items())
    software = ", ".join(f"{name} {version}" for name, version in v.versions.items())
    rows = {"command": command, **made, "device": f"{v.device}, {v.seconds:.1f} s"}
    rows |= {"settings": settings, "software": software}
    return doc.Terms(tuple((label, doc.Code(value)) for label, value in rows.items() if value))


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
