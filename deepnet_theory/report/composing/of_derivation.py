"""A derivation as a document: the rule and what follows from it, then every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.numbers import depth_words
from deepnet_theory.spec.errors import unknown
from deepnet_theory.spec.verdict import Verdict

if TYPE_CHECKING:
    from sympy import Expr

    from deepnet_theory.spec.rule import Rule, RuleEntry
    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic import derivation as made
    from deepnet_theory.symbolic.implications.consequences import Consequence
    from deepnet_theory.symbolic.proof import step as proof

# of the consequences, those that say whether the rule can be trained with
TOLD_FIRST = ("branch-weight", "aligned-sum", "self-consistency", "relative-update", "failing-rate")
NOT_PROVED = "computed and not proved"
COMPUTED = doc.Paragraph(f"{NOT_PROVED.capitalize()}.", aside=True)
MOST_ROWS = 12  # of a folded table that paper shows
RELATION_MEANING = {
    "EQUAL": "exactly",
    "ASYMPTOTIC": "the ratio tends to 1",
    "AT_MOST": "an upper bound",
    "ORDER": "up to a constant factor",
    "BOUND": "an upper bound up to a constant factor",
}


def document(derivation: made.Derivation) -> doc.Document:
    """The whole derivation, its answer first."""
    sections = (
        *consequences(derivation),
        doc.Section("Predicted exponents of the model update", _predictions(derivation)),
        doc.Section("Remarks", remarks(derivation)),
        doc.Section("Setting", (setting(derivation.selection),)),
        doc.Section("Assumptions", _assumptions(derivation)),
        doc.Section("Symbols", (_symbols(derivation),)),
        doc.Section("Derivation", steps(derivation)),
    )
    closing = (doc.Paragraph(conclusion(derivation)),)  # what a terminal shows last
    return doc.Document(title(derivation.selection), answer(derivation), sections, closing)


def short(derivation: made.Derivation) -> doc.Document:
    """The answer on one screen: the rule, what it means in depth, and what else steps beside it."""
    sections = (
        doc.Section(f"In depth, {NOT_PROVED}", (_in_depth(derivation),)),
        *beside(derivation),
    )
    more = f"The {len(derivation.steps)} steps: --steps. One part: --section NAME, of "
    closing = (
        doc.Paragraph(f"{more}{', '.join(_parts(derivation))}.", aside=True),
        doc.Paragraph(conclusion(derivation)),
    )
    told: tuple[doc.Block, ...] = (rule(derivation), *_what_it_means(derivation))
    return doc.Document(title(derivation.selection), told, sections, closing)


def section(derivation: made.Derivation, name: str) -> doc.Document:
    """One part of the whole, named by its title or by how that begins, in any case.

    Raises :class:`InputError` where no title, or more than one, begins so.
    """
    parts = _parts(derivation)
    wanted = name.strip().lower()
    found = [title for title in parts if title == wanted] or [
        title for title in parts if wanted and title.startswith(wanted)
    ]
    if len(found) != 1:
        raise unknown("section", name, parts)
    return doc.Document(title(derivation.selection), (rule(derivation),), (parts[found[0]],))


def _parts(derivation: made.Derivation) -> dict[str, doc.Section]:
    """The sections of the whole, those of the steps among them, by their titles."""
    *told, _ = document(derivation).sections
    return {part.title.lower(): part for part in (*told, *steps(derivation)) if part.body}


def one_line(derivation: made.Derivation) -> str:
    """The derivation as an interpreter shows it."""
    told = (
        f"{owner(e.part, e.sublayer)} alpha = {e.alpha}, beta = {e.beta}"
        + (f", kappa = {e.rate}" if e.rate != "1" else "")
        for e in derivation.rule.entries
    )
    eta = "" if derivation.rule.eta == "1" else f"; eta is multiplied by {derivation.rule.eta}"
    named = title(derivation.selection)
    return f"<Derivation of {named}: {'; '.join(told)}{eta}; {derivation.verdict}>"


def title(selection: Selection) -> str:
    """What the derivation is for, in words."""
    optimizer = selection.the_optimizer.name if selection.optimizer else selection.update
    return f"{selection.placement} {selection.stack} under {optimizer}"


def answer(derivation: made.Derivation) -> tuple[doc.Block, ...]:
    """The rule, what it means, what β multiplies, and how much has been shown."""
    return (
        rule(derivation),
        meaning(derivation),
        *_what_it_means(derivation),
        doc.Paragraph(conclusion(derivation)),
    )


def meaning(derivation: made.Derivation) -> doc.Paragraph:
    """Which steps conclude the rule, and what its constants mean."""
    number = _numbers(derivation)
    concluded = ", ".join(f"({number[name]})" for name in derivation.conclusion)
    told = derivation.rule.meaning.rstrip(".")
    return doc.Paragraph(f"From {concluded}: {told}." if told else f"From {concluded}.")


def _what_it_means(derivation: made.Derivation) -> Iterator[doc.Paragraph]:
    """What β multiplies, which closures are the same rule, and which rule to train with."""
    same = same_rule(derivation)
    yield doc.Paragraph((*reach(derivation), f" {same}" if same else ""))
    if derivation.orders:
        yield stability(derivation)


def same_rule(derivation: made.Derivation) -> str:
    """The closures that give the same rule in other scales, in a sentence; "" of none."""
    names = (n if exact else f"{n} (but for constants)" for n, exact in derivation.equivalent)
    told = ", ".join(names)
    return f"The same rule in other scales, S*r and eta*rho alike: {told}." if told else ""


def stability(derivation: made.Derivation) -> doc.Paragraph:
    """Whether the rule stays stable in depth, and which one to train with."""
    return doc.Paragraph(derivation.in_depth)


def rule(derivation: made.Derivation) -> doc.RuleBox:
    """The rule and the one to train with; with values where the derivation was given a depth."""
    depth = dict(derivation.values)
    rows = tuple(
        (f"{owner(e.part, e.sublayer)}, {row.named}", _knobs(row.rule, e, depth))
        for row in derivation.rows
        for e in row.rule.entries
    )
    return doc.RuleBox(rows, depth_words(depth))


def _knobs(of: Rule, e: RuleEntry, depth: dict[str, int]) -> tuple[doc.Knob, ...]:
    rates = (e.rate_at(**depth), of.eta_at(**depth)) if depth else (None, None)
    values = (*(e.at(**depth) if depth else (None, None)), *rates)
    formulas = (("alpha", e.alpha), ("beta", e.beta), ("kappa", e.rate), ("eta", of.eta))
    return tuple(
        doc.Knob(symbol, doc.Formula(formula), _value(formula, value))
        for (symbol, formula), value in zip(formulas, values, strict=True)
        if symbol in ("alpha", "beta") or formula != "1"
    )


def _value(formula: str, value: float | None) -> str:
    return "" if value is None or formula == "1" else f"{value:.6g}"


def owner(part: str, sublayer: str) -> str:
    """Whose entry it is: the part, and the sublayer where kinds differ."""
    return part if sublayer == "*" else f"{part}, {sublayer}"


def reach(derivation: made.Derivation) -> tuple[doc.Inline, ...]:
    """Which matrices start with the gain β, and step at the rate κ."""
    kinds = {s.name: s for part in derivation.selection.the_stack.parts for s in part.layer}
    reached = (f"{', '.join(m.name for m in s.scaled)} of {name}" for name, s in kinds.items())
    rates = any(entry.rate != "1" for entry in derivation.rule.entries)
    learned = ", kappa their learning rate" if rates else ""
    return (
        "In ",
        doc.Formula(derivation.selection.the_placement.equation),
        f" beta multiplies the initialisation of {'; '.join(reached)}{learned}; "
        "all other matrices keep theirs.",
    )


def proved(derivation: made.Derivation) -> tuple[Verdict, str]:
    """The verdict with what bounds it: how exactly the rule holds, and given how much."""
    given = len(derivation.assumptions)
    told = f" ({RELATION_MEANING[derivation.relation.name]})"
    return derivation.verdict, told + (
        f", given {given} assumption{'s' * (given != 1)}" * bool(given)
    )


def conclusion(derivation: made.Derivation) -> tuple[Verdict, str]:
    """How much has been shown, in one sentence."""
    count = Counter(verdict.value for verdict in derivation.verdicts.values())
    imposed, given = count["IMPOSED"], len(derivation.assumptions)
    relation = derivation.relation.name
    other = ", the rule to train with too," * (len(derivation.rows) > 1)
    told = f": {count['PROVED']} of {len(derivation.steps) - imposed} steps check"
    told += f", {imposed} {'is' if imposed == 1 else 'are'} imposed" if imposed else ""
    told += f", given {given} assumption{'s' * (given != 1)}" if given else ""
    return (
        derivation.verdict,
        f"{told}; the rule holds as {relation} ({RELATION_MEANING[relation]}). "
        f"What stands beside the steps{other} is computed, not proved.",
    )


def consequences(derivation: made.Derivation) -> tuple[doc.Section, ...]:
    """What follows from the rule as powers of the depth: of the scaled matrices, of the others."""
    beside = {f"share-{share.parameter}" for share in derivation.shares}
    rest = [c for c in derivation.consequences if c.name in beside]
    own = [c for c in derivation.consequences if c.name not in beside]
    folds = (("Consequences", own), ("Parameters that beta does not reach", rest))
    note = "as powers of the depth"
    return tuple(
        doc.Section(
            name, (COMPUTED, _orders(found)), folded=True, note=note, long=len(found) > MOST_ROWS
        )
        for name, found in folds
        if found
    )


def _in_depth(derivation: made.Derivation) -> doc.Table:
    """The numbers that say how a rule behaves in depth, with values where a depth is given."""
    rows = tuple(
        (
            doc.Formula(c.value),
            _at(derivation, c.value),
            f"{owner(c.part, c.sublayer)}: {c.meaning}",
        )
        for c in derivation.consequences
        if c.name in TOLD_FIRST
    )
    return _valued(derivation, ("order", "value", "of"), rows)


def _valued(
    derivation: made.Derivation, head: tuple[str, ...], rows: tuple[tuple[doc.Words, ...], ...]
) -> doc.Table:
    """A formula, its value and words a row; without a depth there are no values."""
    if derivation.values:
        return doc.Table(head, rows, numbers=(1,), sentences=(2,))
    return doc.Table((head[0], head[2]), tuple((f, w) for f, _, w in rows), sentences=(1,))


def _told(c: Consequence) -> str:
    return f"{owner(c.part, c.sublayer)}: {c.meaning}"


def _at(derivation: made.Derivation, expression: Expr) -> str:
    """Its value at the depth that was asked for, if one was."""
    depth = dict(derivation.values)
    values = {symbol: depth[symbol.name] for symbol in expression.free_symbols} if depth else {}
    return f"{float(expression.subs(values)):.4g}" if depth else ""


def beside(derivation: made.Derivation) -> tuple[doc.Section, ...]:
    """The parameters that β does not reach and the rule's own learning rate would move too far."""
    found: dict[tuple[str, Expr], list[str]] = {}
    for share in derivation.shares:
        if share.standing == "dominant":
            names = found.setdefault((share.part, share.balancing), [])
            names += [share.parameter] * (share.parameter not in names)
    rows = tuple(
        (doc.Formula(by), _at(derivation, by), f"{part}: {', '.join(names)}")
        for (part, by), names in found.items()
    )
    table = _valued(derivation, ("learning rate times", "value", "for"), rows)
    return (doc.Section(f"Beside the matrices, {NOT_PROVED}", (table,)),) if rows else ()


def _orders(found: Iterable[Consequence]) -> doc.Table:
    rows = tuple(
        (
            c.name,
            owner(c.part, c.sublayer),
            doc.Formula(c.value),
            ". ".join(words.rstrip(".") for words in (c.meaning, c.remark) if words),
        )
        for c in found
    )
    return doc.Table(("quantity", "of", "order", "meaning"), rows, sentences=(3,))


def _predictions(derivation: made.Derivation) -> tuple[doc.Block, ...]:
    rows = []
    for p in derivation.predictions.exponents:
        shown = "no prediction" if p.exponent is None else str(p.exponent)
        rivals = ", ".join(f"{name} {e}" for name, e in p.rivals)
        rows.append((f"in {p.variable}, {p.share}", shown, rivals))
    head = ("exponent", "predicted", "under the rules of others")
    return (COMPUTED, doc.Table(head, tuple(rows), sentences=(2,))) if rows else ()


def remarks(derivation: made.Derivation) -> tuple[doc.Block, ...]:
    """What else a reader of the rule should know."""
    return tuple(doc.Paragraph(remark, aside=True) for remark in derivation.remarks)


def setting(selection: Selection) -> doc.Terms:
    """The setting, as label and value."""
    layers = "; ".join(
        f"{part.depth} layers of {', '.join(s.name for s in part.layer)}"
        for part in selection.the_stack.parts
    )
    rows: dict[str, doc.Words] = {
        "update": doc.Formula(selection.the_optimizer.update),
        "sublayer": doc.Formula(selection.the_placement.equation),
        "stack": layers,
        "norm": selection.norm,
        "method": selection.method or "-",
    }
    return doc.Terms(tuple(rows.items()))


def _assumptions(derivation: made.Derivation) -> tuple[doc.Block, ...]:
    rows = tuple((a.name, a.statement) for a in derivation.assumptions)
    return (doc.Terms(rows),) if rows else ()


def _symbols(derivation: made.Derivation) -> doc.Table:
    """What every symbol stands for, and the number of the step in which it first stands."""
    number = _numbers(derivation)
    alike: dict[tuple[str, str], list[doc.Inline]] = {}
    for m in derivation.symbols.values():
        if m.words:
            shown = alike.setdefault((m.words, m.step), [])
            shown += [", "] * bool(shown) + [doc.Formula(m.shown)]
    rows = tuple((tuple(s), words, f"({number[step]})") for (words, step), s in alike.items())
    return doc.Table(("symbol", "stands for", "from"), rows, sentences=(1,))


def steps(derivation: made.Derivation) -> tuple[doc.Section, ...]:
    """The steps by section, in order of first appearance; their numbers run through."""
    found: dict[str, list[doc.Step]] = {}
    for step in derivation.steps:
        found.setdefault(step.section or "Derivation", []).append(step_of(derivation, step.name))
    return tuple(
        doc.Section(name, tuple(own), True, f"{len(own)} step{'s' * (len(own) != 1)}", long=True)
        for name, own in found.items()
    )


def step_of(derivation: made.Derivation, name: str) -> doc.Step:
    """One step, with the number that it has in the whole."""
    number, step = _numbers(derivation), derivation.step(name)
    because = f"{step.because} [{_rests(step, number)}]"
    reason = (because, *_doubt(step, derivation.verdicts[name]))
    return doc.Step(number[name], step.lhs, step.relation.name, step.rhs, reason)


def _numbers(derivation: made.Derivation) -> dict[str, int]:
    return {step.name: n for n, step in enumerate(derivation.steps, start=1)}


def _rests(step: proof.Step, number: dict[str, int]) -> str:
    """What a step rests on: equation numbers, assumptions, its regime and its source."""
    parts = []
    if step.uses:
        parts.append("from " + ", ".join(f"({number[name]})" for name in step.uses))
    if step.assumptions:
        parts.append("assuming " + ", ".join(step.assumptions))
    if step.regime is not None:
        parts.append(f"as {step.regime}")
    return "; ".join((*parts, step.source))


def _doubt(step: proof.Step, verdict: Verdict) -> tuple[doc.Inline, ...]:
    """The verdict of a step, said where it is not PROVED; which checks a refuted one fails."""
    if verdict is Verdict.PROVED:
        return ()
    fails = f": fails {', '.join(step.failures())}" if verdict is Verdict.REFUTED else ""
    return " ", verdict, fails
