"""A rule as a document: what follows from it and every step; the closures side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from deepnet_theory.definitions.outcome import Verdict, unknown
from deepnet_theory.definitions.rule import FIRST, TO_TRAIN_WITH
from deepnet_theory.report import document as doc
from deepnet_theory.report.document import depth_words

if TYPE_CHECKING:
    from deepnet_theory.definitions.rule import Rule, RuleEntry
    from deepnet_theory.definitions.selection import Selection
    from deepnet_theory.proof.derivation import Derivation
    from deepnet_theory.sizes.answer import Comparison
    from deepnet_theory.sizes.monomial import Monomial

# of the consequences, those that say whether the rule can be trained with
TOLD_FIRST = ("branch-weight", "aligned-sum", "self-consistency", "relative-update", "failing-rate")
NOT_PROVED = "measured and not proved"
COMPUTED = doc.Paragraph(f"{NOT_PROVED.capitalize()}.", aside=True)
CLAUSE = 24  # characters of a reason that is not said again
MOST_ROWS = 12  # of a folded table that paper shows
RELATION_MEANING = {
    "EQUAL": "exactly",
    "ASYMPTOTIC": "the ratio tends to 1",
    "AT_MOST": "an upper bound",
    "ORDER": "up to a constant factor",
    "BOUND": "an upper bound up to a constant factor",
}
MEANING = {  # of the rows that compare closures
    "alpha": "residual multiplier",
    "beta": "gain of the scaled matrices",
    "kappa": "learning-rate multiplier of the scaled matrices",
    "eta": "factor on the learning rate",
    "one rule with": "the first closure with these powers of S*r and eta*rho, which a change of "
    "scales leaves alone",
}


def document(derivation: Derivation) -> doc.Document:
    """All of it: the rule, the steps that end in it, and what was measured beside them."""
    given = doc.Terms(tuple((a.name, a.statement) for a in derivation.assumptions))
    sections = (
        doc.Section("Derivation", steps(derivation)),
        *consequences(derivation),
        doc.Section("Predicted exponents of the model update", _predictions(derivation)),
        doc.Section("Remarks", remarks(derivation)),
        doc.Section("Setting", (setting(derivation.selection),)),
        doc.Section("Assumptions", (given,)),
        doc.Section("Symbols", (_symbols(derivation),)),
    )
    closing = (doc.Paragraph(conclusion(derivation)),)
    means = (meaning(derivation), *what_it_means(derivation), *closing)
    return doc.Document(title(derivation.selection), (box(derivation), *means), sections, closing)


def proof(derivation: Derivation) -> doc.Document:
    """The rule and the steps that end in it; what was measured beside them is named alone."""
    given = "; ".join(f"{a.name}: {a.statement}" for a in derivation.assumptions)
    given += "." * bool(given)
    beside = [name for name, part in _parts(derivation).items() if part not in steps(derivation)]
    beside.remove("assumptions")
    closing = (
        doc.Paragraph(f"And more: --section NAME, of {', '.join(beside)}.", aside=True),
        doc.Paragraph(conclusion(derivation)),
    )
    sections = (*steps(derivation), doc.Section("Assumptions", (doc.Paragraph(given),)))
    answer = (box(derivation), meaning(derivation))
    return doc.Document(title(derivation.selection), answer, sections, closing)


def short(derivation: Derivation) -> doc.Document:
    """The answer on one screen: the rule, what it means in depth, and what else steps beside it."""
    rows = (
        (c.text, c.value, f"{owner(c.part, c.sublayer)}: {c.meaning}")
        for c in derivation.consequences
        if c.name in TOLD_FIRST
    )
    in_depth = _valued(derivation, "order", "of", rows)
    sections = (doc.Section(f"In depth, {NOT_PROVED}", (in_depth,)), *_beside(derivation))
    more = f"The {len(derivation.steps)} steps: --steps. One part: --section NAME, of "
    closing = (
        doc.Paragraph(f"{more}{', '.join(_parts(derivation))}.", aside=True),
        doc.Paragraph(conclusion(derivation)),
    )
    answer: tuple[doc.Block, ...] = (box(derivation), *what_it_means(derivation))
    return doc.Document(title(derivation.selection), answer, sections, closing)


def section(derivation: Derivation, name: str) -> doc.Document:
    """One part of the whole, named by its title or by how that begins, in any case.

    Raises :class:`InputError` where no title, or more than one, begins so.
    """
    parts, wanted = _parts(derivation), name.strip().lower()
    meant = [title for title in parts if wanted and title.startswith(wanted)]
    meant = [wanted] if wanted in parts else meant
    if len(meant) != 1:
        raise unknown("section", name, parts)
    return doc.Document(title(derivation.selection), (box(derivation),), (parts[meant[0]],))


def _parts(derivation: Derivation) -> dict[str, doc.Section]:
    """The sections of the whole, those of the steps among them, by their titles."""
    _, *beside = document(derivation).sections
    return {s.title.lower(): s for s in (*beside, *steps(derivation)) if doc.says(s)}


def one_line(derivation: Derivation) -> str:
    entries = (
        f"{owner(e.part, e.sublayer)} alpha = {e.alpha}, beta = {e.beta}"
        + (f", kappa = {e.rate}" if e.rate != "1" else "")
        for e in derivation.rule.entries
    )
    eta = "" if derivation.rule.eta == "1" else f"; eta is multiplied by {derivation.rule.eta}"
    named = title(derivation.selection)
    return f"<Derivation of {named}: {'; '.join(entries)}{eta}; {derivation.verdict}>"


def title(selection: Selection) -> str:
    optimizer = selection.the_optimizer.name if selection.optimizer else selection.update
    placements = " and ".join(p.name for p in selection.placements)
    return f"{placements} {selection.stack} under {optimizer}"


def equations(selection: Selection) -> tuple[doc.Inline, ...]:
    """The residual equations, which are several where sublayers have placements of their own."""
    pieces: list[doc.Inline] = []
    for p in selection.placements:
        pieces += [" and ", doc.Formula(p.equation)]
    return tuple(pieces[1:])


def owner(part: str, sublayer: str) -> str:
    """Whose entry it is: the part, and the sublayer where kinds differ."""
    return part if sublayer == "*" else f"{part}, {sublayer}"


# the rule, and what it means


def box(derivation: Derivation, to_train: bool = False) -> doc.RuleBox:
    """The rule and the one to train with; with values where the derivation was given a depth.

    ``to_train`` puts the second one first.
    """
    depth = dict(derivation.values)
    rows = tuple(
        (f"{owner(e.part, e.sublayer)}, {row.named}", tuple(_knobs(row.rule, e, depth)))
        for row in derivation.rows[:: -1 if to_train else 1]
        for e in row.rule.entries
    )
    return doc.RuleBox(rows, depth_words(depth))


def _knobs(rule: Rule, e: RuleEntry, depth: dict[str, int]) -> Iterator[doc.Knob]:
    values = (*e.at(**depth), e.rate_at(**depth), rule.eta_at(**depth)) if depth else (None,) * 4
    formulas = {"alpha": e.alpha, "beta": e.beta, "kappa": e.rate, "eta": rule.eta}
    for (symbol, formula), value in zip(formulas.items(), values, strict=True):
        if symbol in ("alpha", "beta") or formula != "1":
            shown = "" if value is None or formula == "1" else f"{value:.6g}"
            yield doc.Knob(symbol, doc.Formula(formula), shown)


def meaning(derivation: Derivation) -> doc.Paragraph:
    number = _numbers(derivation)
    concluded = ", ".join(f"({number[name]})" for name in derivation.conclusion)
    words = derivation.rule.meaning.rstrip(".")
    return doc.Paragraph(f"From {concluded}{f': {words}' if words else ''}.")


def what_it_means(derivation: Derivation) -> Iterator[doc.Paragraph]:
    """What the rule reaches, and its state in depth with what to train with needs."""
    yield doc.Paragraph((*reach(derivation), f" {same_rule(derivation)}".rstrip()))
    if derivation.orders:
        yield doc.Paragraph(derivation.in_depth)


def reach(derivation: Derivation) -> tuple[doc.Inline, ...]:
    """Which matrices start with the gain β, and step at the rate κ."""
    kinds = {s.name: s for part in derivation.selection.the_stack.parts for s in part.layer}
    reached = (f"{', '.join(m.name for m in s.scaled)} of {name}" for name, s in kinds.items())
    rates = any(entry.rate != "1" for entry in derivation.rule.entries)
    learned = ", kappa their learning rate" if rates else ""
    return (
        "In ",
        *equations(derivation.selection),
        f" beta multiplies the initialisation of {'; '.join(reached)}{learned}; "
        "all other matrices keep theirs.",
    )


def same_rule(derivation: Derivation) -> str:
    """The closures that give the same rule in other scales, in a sentence; "" of none."""
    names = [n if exact else f"{n} (up to constants)" for n, exact in derivation.equivalent]
    return f"Equivalent after rescaling, S*r and eta*rho alike: {', '.join(names)}." * bool(names)


def _given(derivation: Derivation) -> str:
    count = len(derivation.assumptions)
    return f", given {count} assumption{'s' * (count != 1)}" if count else ""


def proved(derivation: Derivation) -> tuple[Verdict, str]:
    """The verdict with what bounds it: how exactly the rule holds, and given how much."""
    exactly = RELATION_MEANING[derivation.relation.name]
    return derivation.verdict, f" ({exactly}){_given(derivation)}"


def conclusion(derivation: Derivation) -> tuple[Verdict, str]:
    """How much has been shown, in one sentence, and what was measured beside it in another."""
    # Nothing proves that an update should be constant in depth: that is asked for, so it is counted
    # as imposed. What stands beside the steps comes by a second road, a table, which no step proves
    # and matrices have measured: a page that called either PROVED would claim what it lacks.
    count = Counter(verdict.value for verdict in derivation.verdicts.values())
    imposed, relation = count["IMPOSED"], derivation.relation.name
    other = ", the rule to train with too," * (len(derivation.rows) > 1)
    shown = f": {count['PROVED']} of {len(derivation.steps) - imposed} steps check"
    shown += f", {imposed} {'is' if imposed == 1 else 'are'} imposed" if imposed else ""
    shown += f"{_given(derivation)}; the rule holds as {relation} ({RELATION_MEANING[relation]}). "
    shown += f"What stands beside the steps{other} was measured on explicit matrices, not proved: "
    wrong = [m for m in derivation.measured if m.verdict is Verdict.REFUTED]
    right = f"{len(derivation.measured) - len(wrong)} of {len(derivation.measured)} numbers agree"
    differ = [f"{m.of} is {m.stated} and was measured otherwise" for m in wrong[:3]]
    return derivation.verdict, f"{shown}{'; '.join((right, *differ))}."


# what follows from the rule


def consequences(derivation: Derivation) -> tuple[doc.Section, ...]:
    """What follows from the rule as powers of the depth: of the scaled matrices, of the others."""
    beside = {f"share-{share.parameter}" for share in derivation.shares}
    sections = []
    for name, reached in ("Consequences", True), ("Parameters that beta does not reach", False):
        rows = [
            (c.name, owner(c.part, c.sublayer), doc.Formula(c.text),
             ". ".join(words.rstrip(".") for words in (c.meaning, c.remark) if words))
            for c in derivation.consequences
            if (c.name not in beside) == reached
        ]  # fmt: skip
        body = COMPUTED, doc.table("quantity | of | order | …meaning", rows)
        long = len(rows) > MOST_ROWS
        sections += [doc.Section(name, body, True, "as powers of the depth", long)] * bool(rows)
    return tuple(sections)


def _valued(
    derivation: Derivation, what: str, of: str, rows: Iterable[tuple[str, Monomial | None, str]]
) -> doc.Table:
    """A formula, its value and words a row; without a depth there are no values."""
    depth = dict(derivation.values)
    if not depth:
        return doc.table(f"{what} | …{of}", ((doc.Formula(text), words) for text, _, words in rows))
    cells = (
        (doc.Formula(text), f"{0.0 if size is None else size.at(**depth):.4g}", words)
        for text, size, words in rows
    )
    return doc.table(f"{what} | >value | …{of}", cells)


def _beside(derivation: Derivation) -> tuple[doc.Section, ...]:
    """The parameters that β does not reach and the rule's own learning rate would move too far."""
    dominant = doc.gathered(
        ((share.part, share.balancing), share.parameter)
        for share in derivation.shares
        if share.standing == "dominant"
    )
    rows = ((str(by), by, f"{part}: {', '.join(names)}") for (part, by), names in dominant.items())
    table = _valued(derivation, "learning rate times", "for", rows)
    return (doc.Section(f"Beside the matrices, {NOT_PROVED}", (table,)),)


def _predictions(derivation: Derivation) -> tuple[doc.Block, ...]:
    rows = [
        (
            f"in {p.variable}, {p.share}",
            "no prediction" if p.exponent is None else str(p.exponent),
            ", ".join(f"{name} {e}" for name, e in p.rivals),
        )
        for p in derivation.predictions.exponents
    ]
    table = doc.table("exponent | predicted | …under the rules of others", rows)
    return (COMPUTED, table) if rows else ()


def remarks(derivation: Derivation) -> tuple[doc.Block, ...]:
    return doc.paragraphs(derivation.remarks, aside=True)


def setting(selection: Selection) -> doc.Terms:
    layers = "; ".join(
        f"{part.depth} layers of {part.described}" for part in selection.the_stack.parts
    )
    return doc.Terms(
        (
            ("update", doc.Formula(selection.the_optimizer.update)),
            ("sublayer", equations(selection)),
            ("stack", layers),
            ("norm", selection.norm),
            ("method", selection.method or "-"),
        )
    )


# the steps


def _symbols(derivation: Derivation) -> doc.Table:
    number = _numbers(derivation)
    alike: dict[tuple[str, str], list[doc.Inline]] = {}
    for m in derivation.symbols.values():
        if m.words:
            shown = alike.setdefault((m.words, m.step), [])
            shown += [", "] * bool(shown) + [doc.Formula(m.shown)]
    rows = ((tuple(s), words, f"({number[step]})") for (words, step), s in alike.items())
    return doc.table("symbol | …stands for | from", rows)


def steps(derivation: Derivation) -> tuple[doc.Section, ...]:
    """The steps by section, in order of first appearance; their numbers run through.

    A long clause that an earlier step gave is that step's number; what has the source of the step
    above names none.
    """
    parts: dict[str, list[doc.Step]] = {}
    given: dict[str, int] = {}
    above: dict[str, str] = {}
    for number, step in enumerate(derivation.steps, start=1):
        section = step.section or "Derivation"
        clauses = dict.fromkeys(
            f"as ({given[clause]})" if clause in given else clause
            for clause in step.because.split("; ")
        )
        given |= {c: number for c in clauses if len(c) > CLAUSE}
        source = "" if above.get(section) == step.source else step.source
        above[section] = step.source
        shown = step_of(derivation, step.name, "; ".join(clauses), source)
        parts.setdefault(section, []).append(shown)
    return tuple(
        doc.Section(name, tuple(s), True, f"{len(s)} step{'s' * (len(s) != 1)}", long=True)
        for name, s in parts.items()
    )


def step_of(
    derivation: Derivation, name: str, because: str | None = None, source: str | None = None
) -> doc.Step:
    """One step, with the number that it has in the whole, its verdict and what it rests on.

    ``because`` and ``source`` are said in place of its own; an empty source is left out.
    """
    number, step, verdict = _numbers(derivation), derivation.step(name), derivation.verdicts[name]
    rests = [f"from {_ranges(number[used] for used in step.uses)}"] * bool(step.uses)
    rests += ["given " + ", ".join(step.assumptions)] * bool(step.assumptions)
    rests += [] if step.regime is None else [f"as {step.regime}"]
    fails = [f": fails {', '.join(step.failures())}"] if verdict is Verdict.REFUTED else []
    rests += filter(None, [step.source if source is None else source])
    stands = f" [{'; '.join(rests)}]" if rests else ""
    words = f"{because or step.because}{stands}"
    left, lhs = step.left, step.lhs
    if left is not None and (lhs.is_Derivative or lhs in (left, step.rhs)):
        left, lhs = None, left  # it says the same, shorter
    shown = (number[name], lhs, step.relation.name, step.rhs, words, (verdict, *fails))
    return doc.Step(*shown, left)


def _ranges(numbers: Iterable[int]) -> str:
    """1, 3, 4, 5 as 1, 3-5."""
    counted = enumerate(sorted(numbers))  # along a run the number and its place grow alike
    runs = [[n for _, n in run] for _, run in groupby(counted, lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


def _numbers(derivation: Derivation) -> dict[str, int]:
    return {step.name: n for n, step in enumerate(derivation.steps, start=1)}


# the closures side by side


def comparison(comparison: Comparison) -> doc.Document:
    """One table for each entry of the rule, what its rows mean, and why closures are refused."""
    c = comparison
    first, *_ = c.rules.values()
    rows = dict(MEANING) | {f.name: f.meaning for row in c.consequences.values() for f in row}
    if all(rule.eta == "1" for rule in c.rules.values()):
        del rows["eta"]
    if all(e.rate == "1" for rule in c.rules.values() for e in rule.entries):
        del rows["kappa"]
    named = [f"{FIRST.capitalize()} (without --closure): {c.default}."]
    if c.training:
        condition = c.selection.training_condition
        named.append(f"{TO_TRAIN_WITH.capitalize()}: {c.training}. {condition}".rstrip())
    sections = (
        *(doc.Section(owner(e.part, e.sublayer), (_closures(c, e),)) for e in first.entries),
        doc.Section("Meaning", (doc.Terms(tuple(rows.items())),)),
        doc.Section("Refused", (doc.Terms(tuple(c.refused.items())),)),
    )
    return doc.Document(f"Closures: {title(c.selection)}", doc.paragraphs(named), sections)


def _closures(comparison: Comparison, entry: RuleEntry) -> doc.Table:
    """What every closure makes of one kind of sublayer; a closure is a column."""
    depth, rules = dict(comparison.values), comparison.rules
    entries = {name: rule.entry(entry.part, entry.sublayer) for name, rule in rules.items()}
    formulas = {
        "alpha": {name: e.alpha for name, e in entries.items()},
        "beta": {name: e.beta for name, e in entries.items()},
        "kappa": {name: e.rate for name, e in entries.items()},
        "eta": {name: rule.eta for name, rule in rules.items()},
    }
    rows: dict[str, dict[str, doc.Words]] = {
        knob: {name: doc.Formula(formula) for name, formula in by_closure.items()}
        for knob, by_closure in formulas.items()
        if knob in ("alpha", "beta") or set(by_closure.values()) != {"1"}
    }
    for index, knob in enumerate(("alpha", "beta") if depth else ()):
        values = {name: f"{e.at(**depth)[index]:.6g}" for name, e in entries.items()}
        rows[f"{knob} at {depth_words(depth)}"] = {**values}
    in_depth: dict[str, doc.Words] = {}
    for closure, implied in comparison.consequences.items():
        for c in implied:
            if (c.part, c.sublayer) == (entry.part, entry.sublayer):
                rows.setdefault(c.name, {})[closure] = doc.Formula(c.text)
                if c.name == "failing-rate":
                    in_depth[closure] = c.remark
    rows |= {"in depth": in_depth, "one rule with": {**comparison.classes}}
    cells = tuple((name, *(row.get(n, "-") for n in rules)) for name, row in rows.items())
    return doc.Table(("", *rules), cells)
