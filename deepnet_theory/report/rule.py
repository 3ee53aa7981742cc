"""A rule as a document: what follows from it and every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from deepnet_theory.definitions.measurement import sized
from deepnet_theory.definitions.outcome import Verdict, unknown
from deepnet_theory.definitions.rule import number as evaluated
from deepnet_theory.report import document as doc

if TYPE_CHECKING:
    from deepnet_theory.definitions.selection import Selection
    from deepnet_theory.proof.derivation import Derivation
    from deepnet_theory.sizes.answer import Consequence

# of the consequences, those that say whether the rule can be trained with
TOLD_FIRST = ("branch-weight", "aligned-sum", "self-consistency", "relative-update", "failing-rate")
SOURCES = (
    ("DeepNet", "https://arxiv.org/abs/2203.00555"),
    ("Su", "https://kexue.fm/archives/8978"),
    ("layer cake", "claims in paper_checks/cake/README.md"),
    ("Pre/Post norm note", "claims in paper_checks/norms/README.md"),
)
RELATION_MEANING = {
    "EQUAL": "exactly",
    "AT_MOST": "an upper bound",
    "ORDER": "up to a constant factor",
    "BOUND": "an upper bound up to a constant factor",
}


def document(derivation: Derivation) -> doc.Document:
    """The rule, its steps and what was measured."""
    told = propositions(derivation)
    ends = ", ".join(f"({told[name].number})" for name in derivation.conclusion)
    body: doc.Body = (
        *box(derivation),
        conclusion(derivation),
        f"From {ends}: {derivation.rule.meaning.rstrip('.')}.",
        *meaning(derivation),
        doc.Document("Derivation", steps(derivation)),
        *beside(derivation),
    )
    return doc.Document(title(derivation.selection), body)


def short(derivation: Derivation) -> doc.Document:
    """The answer on one screen: the rule, what it means in depth, and what else to know.

    No step is made for it, and SymPy is not imported.
    """
    first = _consequences(c for c in derivation.consequences if c.name in TOLD_FIRST)
    body: doc.Body = (
        *box(derivation),
        *meaning(derivation),
        doc.Document("In depth", (first, *derivation.remarks)),
        "The steps that end in this rule, each checked, and what they assume: --steps. One part of "
        "them: --section NAME, such as assumptions.",
        (derivation.agreed, f": {measured(derivation)}"),
    )
    return doc.Document(title(derivation.selection), body)


def section(derivation: Derivation, name: str) -> doc.Document:
    """One part of the whole, named by its title or by how that begins, in any case.

    Raises :class:`InputError` where no title, or more than one, begins so.
    """
    parts, wanted = _parts(derivation), name.strip().lower()
    meant = [title for title in parts if wanted and title.startswith(wanted)]
    meant = [wanted] if wanted in parts else meant
    if len(meant) != 1:
        raise unknown("section", name, parts)
    return doc.Document(title(derivation.selection), (*box(derivation), parts[meant[0]]))


def _parts(derivation: Derivation) -> dict[str, doc.Document]:
    """The sections of the whole, those of the steps among them, by their titles."""
    parts = (*beside(derivation), *steps(derivation))
    return {part.title.lower(): part for part in parts if part}


def title(selection: Selection) -> str:
    """The network and what trains it."""
    optimizer = selection.the_optimizer.name if selection.optimizer else selection.update
    return f"{selection.placement} {selection.stack} under {optimizer}"


def owner(part: str, sublayer: str) -> str:
    """Whose entry it is: the part, and the sublayer where kinds differ."""
    return part if sublayer == "*" else f"{part}, {sublayer}"


# ---- the rule, and what it means ----


def box(derivation: Derivation) -> Iterator[doc.Block]:
    """The rule, and the published one under a recommended one; values below them at a depth."""
    depth, rows, lines = dict(derivation.values), derivation.rows, list[tuple[doc.Words, ...]]()
    several = len(derivation.rule.entries) > 1
    factor = any(row.rule.eta != "1" for row in rows)
    for row in rows:
        chosen = row.chosen.removesuffix(" for training")
        for e in row.rule.entries:
            named = f"{owner(e.part, e.sublayer)}, {chosen}" if several else chosen
            formulas = (e.alpha, e.beta, e.rate, *([row.rule.eta] * factor))
            lines.append((named, *map(doc.Formula, formulas), row.closure, row.whose))
            if depth:
                values = (f"{evaluated(formula, **depth):.6g}" for formula in formulas)
                lines.append((f"at {sized(depth)}", *values, "", ""))
    yield doc.table(f"rule | α | β | κ{' | factor on η' * factor} | closure | whose", lines)


def meaning(derivation: Derivation) -> Iterator[doc.Words]:
    """Which matrices the rule scales, and whether it is stable."""
    kinds = {s.name: s for part in derivation.selection.the_stack.parts for s in part.layer}
    scaled = "; ".join(f"{', '.join(m.name for m in s.scaled)} of {n}" for n, s in kinds.items())
    yield (
        "In ",
        doc.Formula(derivation.selection.the_placement.equation),
        f", β multiplies the initialisation of {scaled}; κ multiplies their learning rate. All "
        "other matrices keep theirs.",
    )
    yield derivation.in_depth


def proved(derivation: Derivation) -> tuple[Verdict, str]:
    """The verdict with what bounds it: how exactly the rule holds, and given how much."""
    given = len(derivation.assumptions)
    exactly = RELATION_MEANING[derivation.relation.name]
    return derivation.verdict, f" ({exactly}), given {given} assumption{'s' * (given != 1)}"


def conclusion(derivation: Derivation) -> tuple[Verdict, str]:
    """How much has been shown, in one sentence, and what was measured beside it in another."""
    # Nothing proves that an update should be constant in depth: that is asked for, so it is counted
    # as imposed. The other numbers come by a second road, a table, which matrices have measured.
    count = Counter(verdict.value for verdict in derivation.verdicts.values())
    imposed = count["IMPOSED"]
    verdict, bounds = proved(derivation)
    return verdict, (
        f": {count['PROVED']} of {len(derivation.steps) - imposed} steps check, {imposed} imposed"
        f"; the rule holds as {derivation.relation.name}{bounds}. Measured: {measured(derivation)}"
    )


def measured(derivation: Derivation) -> str:
    """How many of the printed numbers explicit matrices gave, too."""
    measured, confirmed = derivation.measured, sum(bool(m.holds) for m in derivation.measured)
    wrong = [m for m in measured if m.holds is False]
    differ = (f"; {m.of} is {m.stated} and was measured otherwise" for m in wrong[:3])
    said = f"explicit matrices confirm {confirmed} of {len(measured)} printed numbers"
    return f"{said}{''.join(differ)}."


# ---- what is measured, and not a step ----


def beside(derivation: Derivation) -> Iterator[doc.Document]:
    """The powers of the depth of the scaled matrices and of the others, remarks and premises."""
    shares = {f"share-{share.place.parameter}" for share in derivation.parameters}
    for name, other in ("Consequences", False), ("Parameters that beta does not reach", True):
        found = (c for c in derivation.consequences if (c.name in shares) is other)
        yield doc.Document(name, (_consequences(found),), folded=True)
    yield doc.Document("Remarks", derivation.remarks)
    premises = doc.terms((a.name, a.statement) for a in derivation.assumptions)
    yield doc.Document("Assumptions", (premises,))
    cited = " ".join(step.source for step in derivation.steps)
    yield doc.Document("Sources", (doc.terms((s, at) for s, at in SOURCES if f"{s}," in cited),))


def _consequences(found: Iterable[Consequence]) -> doc.TableBlock:
    """A table of consequences, what each means with its remark."""
    rows: list[tuple[doc.Words, ...]] = [
        (
            c.name,
            owner(c.part, c.sublayer),
            doc.Formula(c.text),
            ". ".join(words.rstrip(".") for words in (c.meaning, c.remark) if words),
        )
        for c in found
    ]
    return doc.table("quantity | of | order | …meaning", rows)


# ---- the steps ----


def steps(derivation: Derivation) -> tuple[doc.Document, ...]:
    """The steps by section, in order of first appearance; their numbers run through."""
    parts: dict[str, list[doc.Proposition]] = {}
    for told in propositions(derivation).values():
        parts.setdefault(told.step.section or "Derivation", []).append(told)
    return tuple(doc.Document(name, tuple(found), folded=True) for name, found in parts.items())


def propositions(derivation: Derivation) -> dict[str, doc.Proposition]:
    """All steps under their names, each with a number, a verdict and what it rests on."""
    found: dict[str, doc.Proposition] = {}
    for number, step in enumerate(derivation.steps, start=1):
        verdict, left, lhs = derivation.verdicts[step.name], step.left, step.lhs
        rests = (
            f"from {', '.join(str(found[used].number) for used in step.uses)}" * bool(step.uses),
            f"given {', '.join(step.assumptions)}" * bool(step.assumptions),
            step.source,
        )
        stands = "; ".join(filter(None, rests))
        if left is not None and (lhs.is_Derivative or lhs in (left, step.rhs)):
            left, lhs = None, left  # it says the same, shorter
        because = f"{step.because} [{stands}]" if stands else step.because
        wrong = step.failures() if verdict is Verdict.REFUTED else ()
        fails = f"REFUTED: fails {', '.join(wrong)}" * bool(wrong)
        shown = replace(step, left=left, lhs=lhs, because=because)
        found[step.name] = doc.Proposition(number, shown, verdict, fails)
    return found
