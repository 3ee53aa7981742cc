"""The report: from a rule to its measurement, its constants and its provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report import of_derivation, of_verification

if TYPE_CHECKING:
    from deepnet_theory.spec.constants import Constants
    from deepnet_theory.spec.verification import Verification
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
) -> doc.Document:
    """Everything on one page; ``command`` is the way to make it again."""
    rule, *told = of_derivation.answer(derivation)
    remarks = doc.Section("Remarks", of_derivation.remarks(derivation), folded=True)
    sections = (
        doc.Section("The rule", (*told, *of_derivation.consequences(derivation), remarks)),
        doc.Section("The setting", (of_derivation.setting(derivation.selection),)),
        doc.Section("The measurement", of_verification.measurement(verification, rivals)),
        doc.Section("The assumptions", _assumptions(derivation, verification)),
        doc.Section("The derivation", of_derivation.steps(derivation)),
        doc.Section("The constants", _constants(constants)),
        doc.Section("Using them", _use(constants[-1])),
        doc.Section("Provenance", (_provenance(verification, command),)),
    )
    found = ("Measurement: ", *of_verification.answer(verification))
    if verification.level:
        found = (*found, " ", *of_verification.level(verification))
    proved = ("Derivation: ", *of_derivation.proved(derivation), ". ")
    return doc.Document(
        of_derivation.title(derivation.selection),
        (doc.Paragraph(_QUESTION, aside=True), rule, doc.Paragraph((*proved, *found))),
        sections,
    )


def _assumptions(derivation: Derivation, verification: Verification) -> tuple[doc.Block, ...]:
    stated = {a.name: a.statement for a in derivation.assumptions}
    missing = len(stated.keys() - {a.name for a in verification.assumptions})
    measured = f"{len(stated) - missing} of {len(stated)} were" if missing else "each was"
    told = f"The steps hold given these; {measured} measured on the same networks."
    return doc.Paragraph(told), of_verification.assumptions(verification.assumptions, stated)


def _constants(constants: Sequence[Constants]) -> tuple[doc.Block, ...]:
    """α and β of every kind of sublayer, and the learning rates of what β does not reach."""
    table = doc.Table(
        ("layers", "of", "sublayers", "α", "β", "factor on η"),
        tuple(row for c in constants for row in _gains(c)),
        numbers=(3, 4, 5),
    )
    rates = tuple(row for c in constants for row in _multipliers(c))
    if not rates:
        return (table,)
    told = (
        "Parameters that β does not reach move the output more than the matrices that the rule "
        "balances. These learning-rate multipliers give them the same weight:"
    )
    head = ("layers", "of", "parameters", "multiplier")
    return table, doc.Paragraph(told), doc.Table(head, rates, numbers=(3,))


def _gains(constants: Constants) -> Iterator[tuple[doc.Words, ...]]:
    for part in constants.parts:
        kinds: dict[tuple[float, float], list[str]] = {}
        for s in part.sublayers:
            kinds.setdefault((s.alpha, s.beta), []).append(s.kind)
        for values, names in kinds.items():
            shown = (f"{value:.6g}" for value in (*values, constants.eta))
            yield _layers(constants), part.name, ", ".join(names), *shown


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


def _use(chosen: Constants) -> tuple[doc.Block | doc.Section, ...]:
    name = doc.Code("constants.json")
    apply = doc.Code("deepnet_theory.runtime.apply_(model, constants)")
    own = ("A model of your own takes them with ", apply, ", which changes it in place or refuses "
           "with the reason.")  # fmt: skip
    return (
        doc.Paragraph(("Save the constants as ", name, ":")),
        doc.Listing(_SNIPPET),
        doc.Paragraph(own),
        doc.Section(name.text, (doc.Listing(chosen.to_json().rstrip()),), folded=True),
    )


def _provenance(verification: Verification, command: str) -> doc.Terms:
    rows = {"command": command} | {k: _shown(v) for k, v in verification.measure.items()}
    rows |= {"device": verification.device, "seconds": f"{verification.seconds:.1f}"}
    rows |= verification.versions
    return doc.Terms(tuple((label, doc.Code(value)) for label, value in rows.items() if value))


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
