"""Experiments: a rule or a published scheme predicted, verified and trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepnet_theory.cli.deriving import (
    OF_SELECTION,
    Alignment,
    derived,
    export,
    refuse,
    selection_of,
    subject_of,
)
from deepnet_theory.definitions.outcome import (
    InputError,
    Refusal,
    UnstableWarning,
    Verdict,
    shown,
    unknown,
)
from deepnet_theory.definitions.record import Option, record, taken
from deepnet_theory.definitions.rule import COMPLETE, PUBLISHED, Rule
from deepnet_theory.definitions.selection import ALIGNMENTS, Selection, Stack
from deepnet_theory.definitions.sublayer import EPSILON
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.exponents import predictions, scheme_predictions
from deepnet_theory.sizes.growth import growth
from deepnet_theory.sizes.update import law

if TYPE_CHECKING:
    from deepnet_theory.definitions.constants import Constants
    from deepnet_theory.definitions.measurement import Plan, Result
    from deepnet_theory.laboratory.settings import Settings
    from deepnet_theory.laboratory.training import Built, Course
    from deepnet_theory.processes.jobs import Work
    from deepnet_theory.proof.derivation import Derivation

Given = Mapping[str, Any]  # fields of Measurement, and of processes.Work: who does the work
Depths = Annotated[
    str | Iterable[object] | None,
    Option("LIST", "8,16,32 or 8:1000; encoder-decoder 8x6,16x6. Default 8,16,32,64,128"),
]
Widths = Annotated[str | Iterable[object] | None, Option("LIST", "Widths: 64,128,256 or 64:1024")]
Names = str | Iterable[str] | None  # names, or a text of them with commas between

WIDTHS = "64:1024"
VOCABULARY = 32  # bytes modulo it: fewer than the width, as the law of a table has it
WIDE_LAYERS = 4  # of what is trained at several widths
WIDE_TOKENS = 8  # few beside the width
RULES = ("rule", "sp")


def settings_and_work(given: Given) -> tuple[Settings, Work]:
    """The laboratory's settings, and where the work is done.

    Raises :class:`InputError` for a name that neither of them knows.
    """
    from deepnet_theory.laboratory.settings import Settings
    from deepnet_theory.processes.jobs import split

    measure, work = split(given)
    return record(Settings, "a measurement", measure), work


def predict_update(
    derivation: Derivation | Selection | str | None = None,
    depths: Depths = None,
    **given: Any,
) -> Result:
    r"""Predict :math:`\|\Delta F\|/\eta` per token in absolute size, at any depth.

    .. math:: E\|\Delta F\|^2 = L\,E\|V\|^2 + L(L-1)\,E\langle V, V'\rangle

    with V, V' what two of the L layers add, sampled with the data, embeddings and heads of
    :func:`verify`, whose parameters it takes; 10,000 layers cost what 8 do. Where the rule scales a
    norm's ε, a warning says what a fixed one gives, and where it takes 5 % in each sublayer.

    Source: derived here.
    """
    from deepnet_theory.laboratory.settings import depth_key, wanted_depths
    from deepnet_theory.laboratory.verify import cases_of
    from deepnet_theory.laboratory.verify import predict as run

    subject = subject_of(derivation, given)
    settings, work = settings_and_work(given)
    if settings.updates > 1:
        raise InputError(
            f"updates {settings.updates} was given, and what is predicted is the first update"
        )
    selection, used = subject.measured()
    wanted = wanted_depths(depths, selection.the_stack)
    found = run(cases_of(selection, used, wanted, settings, subject.scheme), **work)
    fixed = replace(used, entries=tuple(replace(e, norm_epsilon=()) for e in used.entries))
    if fixed == used:
        return found
    left = run(cases_of(selection, fixed, wanted, settings, subject.scheme), **work)
    sizes = ", ".join(
        f"{one.mean:.4g} ({one.mean / scaled.mean:.0%}) at depth {depth_key(one.at)}"
        for one, scaled in zip(left.points, found.points, strict=True)
    )
    warning = f"with the epsilon of every norm left at {EPSILON:g} it is {sizes}"
    if lost := "; ".join(_lost(selection, used, left, found)):
        warning += f": 5 % are lost in {lost}"
    told = replace(found.provenance, warnings=(*found.provenance.warnings, warning))
    return replace(found, provenance=told)


def _lost(selection: Selection, rule: Rule, left: Result, scaled: Result) -> Iterator[str]:
    r"""By sublayer, from what depth on a fixed ε of the norm behind it takes 5 % of its update.

    Of the change by a matrix in a branch of variance v it leaves
    :math:`(1 + \varepsilon/v)^{-(1 + p)/2}`, p the update's degree in g. The share that is
    ``left`` at one depth gives ε/v there, and v scales as the ``scaled`` ε does.
    """
    means = [{(s.at["part"], s.at["name"]): s.mean for s in r.shares} for r in (left, scaled)]
    power, depth = -2 / (1 + float(law(selection.the_optimizer).p)), left.points[-1].at
    for part in selection.the_stack.parts:
        for kind in dict.fromkeys(part.layer):
            wanted = dict(rule.entry(part.name, kind.name).norm_epsilon).get("output")
            name = part.name, f"{kind.name} {kind.last_map[0]}"
            fixed, whole = (known.get(name, 0.0) for known in means)
            if wanted is not None and 0 < fixed < whole:
                now, then = ((fixed / whole) ** power - 1, 0.95**power - 1)
                ratio = (then / now) ** (-1 / float(growth(wanted, part.depth)))
                yield f"{kind.name} from {part.depth} = {depth[part.depth] * ratio:.0f} on"


def verify(
    derivation: Derivation | Selection | str | None = None,
    depths: Depths = None,
    *,
    across: Annotated[str, Option("NAME", "depth or width", ("depth", "width"))] = "depth",
    widths: Widths = None,
    alignment: Alignment = None,
    seeds: Annotated[
        int | None,
        Option("N", "Independent repetitions; 3, and up to 8 until the verdict is decided"),
    ] = None,
    **given: Any,
) -> Result:
    r"""Measure :math:`\|\Delta F\|/\eta` per token on real stacks and test the exponents.

    .. math:: \frac{\|\Delta F\|}{\eta} = \frac1{\eta T} \sum_{t=1}^{T}
              \Bigl(\sum_{i=1}^{d} (F_{ti}(\theta + \Delta\theta) - F_{ti}(\theta))^2\Bigr)^{1/2}

    after one step on the batch at hand; F is the stack's output before the head, of shape
    (tokens T, width d).

    Without ``seeds`` it begins with 3, at three depths where those are not given either, and adds
    seeds and depths until every predicted exponent is decided, up to the defaults. ``because`` says
    how many were taken (:func:`~deepnet_theory.laboratory.verify.looks_at`).

    ``across`` "width" measures the builder's models at several ``widths``, with the rule relative
    to the smallest: the relative change of F by one update, and the change of the loss. Both should
    be the same at every width. ``given`` are the fields of a selection; your own ``rule``, or
    ``alpha`` and ``beta``; or a published ``scheme``, compared with its judged exponent; the fields
    of :class:`~deepnet_theory.laboratory.settings.Settings` (``width``, ``draws`` …) and of
    :class:`~deepnet_theory.processes.jobs.Work`: any number of ``processes``, or any ``executor``
    of ``concurrent.futures``, gives the same result; ``cache`` is a folder of finished work, True
    for the user's own.

    Raises :class:`InputError` for bad settings and :class:`Refusal` where no law is known.

    Source: the model update of DeepNet, arXiv 2203.00555, §4.1, per unit of the learning rate;
    across the width derived here, measured as in Everett et al., arXiv 2407.05872, and Yang et al.,
    arXiv 2310.17813.
    """
    from deepnet_theory.laboratory.settings import wanted_depths
    from deepnet_theory.laboratory.verify import looks_at
    from deepnet_theory.laboratory.verify import verify as run

    subject = subject_of(derivation, given)
    given |= {} if seeds is None else {"seeds": seeds}
    if across == "width":
        if subject.rule is not None or subject.selection is None or subject.scheme is not None:
            raise InputError("verify across width takes the derived rule: leave rule or scheme out")
        aligned = alignment or ALIGNMENTS[0]
        return _in_width(subject.selection, depths, widths or WIDTHS, aligned, given)
    if across != "depth":
        raise unknown("across", across, ("depth", "width"))
    refuse({"widths": widths, "alignment": alignment}, "without across width")
    settings, work = settings_and_work(given)
    (selection, used), rows = subject.measured(), {}
    if subject.scheme is None:
        proved = derived(subject.given)
        expected, used = proved.predictions, subject.rule or proved.rule
        if subject.rule is not None or settings.step != "matrices":
            exponents = predictions(selection, used, settings.step)
            expected = replace(exponents, assumptions=expected.assumptions)
        if subject.rule is None:
            rows = {row.named: row.rule.told() for row in proved.rows}
    elif settings.step == "matrices":
        expected = scheme_predictions(subject.scheme, selection)
    else:
        raise InputError(
            f"step {settings.step!r} was given with the scheme {subject.scheme.name!r}, whose "
            "exponent is that of its matrices; valid is 'matrices'"
        )
    wanted, looks = wanted_depths(depths, selection.the_stack), []
    if seeds is None:
        looks = looks_at(wanted, settings.seeds, fewer_depths=depths is None)
    measured = run(
        selection, used, expected, wanted, settings, scheme=subject.scheme, looks=looks, **work
    )
    return replace(measured, of={**measured.of, "rows": rows})


def _in_width(
    selection: Selection,
    depths: Depths,
    widths: str | Iterable[object],
    alignment: str,
    given: Given,
) -> Result:
    """The builder's models of the exported rule, measured as :func:`measure` does any family."""
    from deepnet_theory.definitions.measurement import VERIFICATION
    from deepnet_theory.laboratory.judging import verdict_on
    from deepnet_theory.laboratory.measuring import measure
    from deepnet_theory.laboratory.model_steps import ANSWER
    from deepnet_theory.laboratory.model_update import ALL
    from deepnet_theory.laboratory.settings import parse_depths, parse_widths

    only = ("width", "step", "updates", "eta", "draws", "data")
    refuse(
        {name: given.get(name) for name in only},
        "with across width, which has its own: widths, the first update and text",
    )
    stack = one_part(selection, "verify across width builds")
    wanted = parse_widths(widths)
    layers = [n for depth in parse_depths(depths or [2], stack) for n in depth.values()]
    settings, work = settings_and_work({"tokens": WIDE_TOKENS, **given, "width": wanted[0]})
    answer = Answer(selection)
    made = partial(_constants, answer, settings, VOCABULARY, wanted[0], alignment=alignment)
    for width in wanted:  # one that the heads do not divide is refused before measuring
        made(layers[0], width)
    found = measure(
        partial(_built, made, settings), layers, widths=wanted,
        optimizer=partial(_grouped, selection.the_optimizer), seeds=settings.seeds,
        seed=settings.seed, **work,
    )  # fmt: skip
    of = {"select": {**selection.to_dict(), "across": "width"}, "rule": asdict(answer.rule.plain())}
    told = {**settings.to_dict(), "width": list(wanted), "depths": found.settings["depths"]}
    # a parameter by itself is measured with less certainty, and decides nothing here
    decisive = tuple(e for e in found.exponents if e.share in (ALL, ANSWER))
    verdict = Verdict.UNDECIDED if found.stopped else verdict_on(decisive)
    return replace(
        found, schema=VERIFICATION, of=of, settings=told, exponents=decisive, verdict=verdict
    )


def one_part(selection: Selection, does: str) -> Stack:
    """The stack of a selection; :class:`InputError` for one of two parts."""
    if len(selection.the_stack.parts) > 1:
        raise InputError(
            f"{does} stacks of one part, and {selection.stack!r} has two; valid are: encoder, "
            "decoder"
        )
    return selection.the_stack


def _constants(
    answer: Answer, settings: Settings, vocab: int, base: int | None, depth: int, width: int,
    **rule: str,
) -> Constants:  # fmt: skip
    """The constants of a model of these sizes, relative to a ``base`` width with the same heads."""
    sizes = {name: getattr(settings, name) for name in ("heads", "ffn_ratio", "activation")}
    heads = None if base is None else settings.heads
    sizes |= {"width": width, "vocab": vocab, **rule}
    with warnings.catch_warnings(action="ignore", category=UnstableWarning):  # curves show it
        return export(answer, depth, base=base, base_heads=heads, **sizes)


def _built(
    made: Callable[[int, int], Constants], settings: Settings, depth: int, width: int
) -> tuple[Any, Any]:
    """A model of the exported rule, and windows of text that are the same at every size."""
    import torch

    from deepnet_theory.laboratory.text import text_windows
    from deepnet_theory.runtime import build

    windows = text_windows(settings.batch, settings.tokens, torch.default_generator) % VOCABULARY
    return build(made(depth, width)), windows


def _grouped(optimizer: Any, model: Any) -> Any:
    """The steps of an optimizer's expression at the rates that a built model's rule gives."""
    from deepnet_theory.laboratory.stepping import RATE, Expressed
    from deepnet_theory.models.groups import parameter_groups

    return Expressed(parameter_groups(model, RATE), optimizer, RATE)


# ---- trained ----


def transfer(
    selection: Selection | Derivation | Callable[..., object] | str | None = None,
    depths: Depths = None,
    rates: Annotated[
        str | Iterable[float], Option("LIST", "Learning rates: 1e-4,1e-3 or 1e-4:1e-1")
    ] = (),
    closures: Annotated[
        Names, Option("LIST", "One curve each; the verdict is the first one's", folder="closures")
    ] = None,
    *,
    widths: Widths = None,
    rules: Annotated[
        Names, Option("LIST", "Across widths, one curve each: rule, sp; both", RULES)
    ] = None,
    steps: Annotated[int, Option("N", "Steps of the optimizer")] = 100,
    rivals: Annotated[
        bool, Option("", "Also train wrong rules, which the test must refute")
    ] = False,
    plan: Annotated[bool, Option("", "Print what --rivals would train, and its power")] = False,
    text: Annotated[str | Path | None, Option("FILE", "Text to train on")] = None,
    batch: Annotated[int | None, Option("N", "Sequences a batch; 8")] = None,
    seeds: Annotated[int, Option("N", "Independent repetitions")] = 4,
    **given: Any,
) -> Result | Plan:
    r"""Train at every depth with every learning rate, and say whether the best one transfers.

    .. math:: \eta^*(N) \propto N^{c}, \qquad \text{it transfers where the interval of } c
              \text{ over seeds lies inside } \pm\tfrac1{16}

    The loss is the validation loss after ``steps`` steps of the selection's optimizer on windows of
    ``text``, next byte. Every kind of parameter is trained at its derived multiplier.
    One curve a depth and closure, by default of ``complete`` and the one that :func:`derive`
    shows. With ``widths`` every depth is trained at each of them, and the curves are of ``rules``:
    "rule", relative to the smallest width, and "sp", standard parametrisation at one learning rate.
    Heads become wider with the model.

    With ``rivals`` the rule is trained beside wrong rules that its own table makes: all of them are
    the same at the smallest size, whose best rate and its neighbours the others are trained at.
    SUPPORTED also needs a wrong rule that is REFUTED, and a power of 0.8. ``plan`` says how many
    runs that takes, with what power, and trains nothing.

    Your own training is a function or a text ``FILE.py:NAME`` in place of the selection:
    ``train_setup(depth, width, lr, seed)`` gives ``step, evaluate`` or ``step, evaluate,
    baseline``. It takes what it names of these and ``steps``; a depth of 4 or a width of 64 where
    that does not vary. ``step()`` trains once and may return the loss; ``evaluate()`` gives the
    number that is to be lowest behind the last step; ``baseline`` is what a model has that ignores
    its input: a run that ends no better has failed. A run that diverges, by a number not finite or
    an :class:`ArithmeticError`, counts as the worst. With an optimizer or an update it is a plain
    factory of models instead, as :func:`~deepnet_theory.laboratory.measuring.measure` takes one,
    trained on windows of text (or on the inputs that it gives).

    ``given`` is that of :func:`verify`, without a rule of your own or a scheme. An interrupt
    (Ctrl-C) gives the partial result. Raises :class:`InputError` for bad input and
    :class:`Refusal` where a closure gives no rule, or the optimizer is known by its first step
    alone.
    """
    from deepnet_theory.laboratory.measuring import places_of
    from deepnet_theory.laboratory.settings import wanted_depths
    from deepnet_theory.laboratory.training import Course, setup_of
    from deepnet_theory.laboratory.transfer import planned, transfer_of
    from deepnet_theory.processes.jobs import split

    in_depth: Given = {"closures": closures, "width": given.get("width")}
    select = taken(given, OF_SELECTION)
    if callable(selection) or (isinstance(selection, str) and ":" in selection):
        measure, work = split(given)
        told = {"steps": steps, "seeds": seeds, "seed": measure.pop("seed", 0)}
        stepped = taken(select, ("optimizer", "update"))
        held = {"text": text, "batch": batch, "rules": rules, **select, **measure}
        held |= {"rivals": rivals or None, "plan": plan or None}
        refuse({**in_depth, **held}, f"with {shown(selection)}, which has its own")
        places = places_of(depths, widths, fewest_widths=1)
        setup = setup_of(selection, steps, places[0], **stepped)
        of: dict[str, Any] = {"model": setup.name}
        of |= {"optimizer": setup.stepped.name} if setup.stepped else {}
        return transfer_of(of, told, {"own": setup}, places, rates, "auto", **work)
    refuse(
        {name: given.get(name) for name in ("draws", "updates", "eta", "rule", "scheme", "alpha")},
        "with transfer, which has none: it is for verify",
    )
    selection = selection_of(selection, select)
    stack = one_part(selection, "transfer trains")
    if wide := widths is not None:
        refuse(in_depth, "with widths, whose curves are of rules")
    else:
        refuse({"rules": rules}, "without widths")
    wanted = wanted_depths([WIDE_LAYERS] if wide and depths is None else depths, stack)
    places = places_of(wanted, widths, stack=stack)
    widest = {"width": places[-1]["d"]} if wide else {}
    settings, work = settings_and_work({"batch": batch or 8, "seeds": seeds, **given, **widest})
    # a worker elsewhere has another folder
    file = None if text is None else str(Path(text).absolute())
    course = Course(selection.the_optimizer, settings, steps, file)
    names, base = (rules, places[0]["d"]) if wide else (closures, None)
    beside, same = dict[str, Any](), list[str]()
    if rivals:
        refuse({"rules": rules, "closures": closures}, "with rivals, which are of one rule")
        candidates, beside, same = _beside(selection, places, course)
    else:
        refuse({"plan": plan or None}, "without rivals")
        candidates = {c.name: c for c in _candidates(selection, names, places, base, course)}
    of = {"select": {k: v for k, v in selection.to_dict().items() if k != "closure"}}
    of |= {"left_out": same} if rivals else {}
    if plan:
        return planned({**candidates, **beside}, same, places, rates, seeds)
    work.setdefault("processes", None)  # the builder's models are trained on all cores
    return transfer_of(
        of, course.to_dict(), candidates, places, rates, settings.device, beside, **work
    )


def _candidates(
    selection: Selection, names: Names, places: Sequence[Given], base: int | None, course: Course
) -> Iterator[Built]:
    """What is trained: the rule of every closure, or with a ``base`` width every one of RULES."""
    source = Answer(replace(selection, closure=PUBLISHED)) if base is None else None
    both = (COMPLETE.name, source.closure) if source else RULES
    several = names.split(",") if isinstance(names, str) else names or both
    for name in dict.fromkeys(one.strip().lower() for one in several):
        if base is not None and name not in RULES:
            raise unknown("rule", name, RULES)
        answer = Answer(replace(selection, closure=name) if base is None else selection)
        on = base if name == RULES[0] else None
        yield _candidate(name, answer, _models(answer, places, on, course), places, course)


def _models(
    answer: Answer, places: Sequence[Given], base: Any, course: Course, aligned: str = ALIGNMENTS[0]
) -> list[Constants]:
    from deepnet_theory.laboratory.trial import VOCAB

    made = partial(_constants, answer, course.settings, VOCAB, base, alignment=aligned)
    return [made(next(iter(p.values())), p.get("d", course.settings.width)) for p in places]


def _candidate(
    name: str, answer: Answer, models: Iterable[Constants], places: Iterable[Given], course: Course
) -> Built:
    from deepnet_theory.laboratory.settings import depth_key
    from deepnet_theory.laboratory.training import Built
    from deepnet_theory.laboratory.transfer import causal

    rhos = {entry.sublayer: entry.rho for entry in answer.rule.entries}
    rho, *others = {*rhos.values()}
    if others:
        rho = ", ".join(f"{sublayer} {rho}" for sublayer, rho in rhos.items())
    at = {depth_key(place): causal(c) for place, c in zip(places, models, strict=True)}
    return Built(name, at, course, rho)


def _beside(
    selection: Selection, places: Sequence[Given], course: Course
) -> tuple[dict[str, Built], dict[str, Built], list[str]]:
    """The rule with the first place as its base, wrong ones, and which of them are left out."""
    from deepnet_theory.sizes.rivals import WRONG, alike, of_another, wrong

    first = next(iter(places[0].values()))
    base = places[0].get("d", course.settings.width), first
    answer = Answer(selection)
    rule = _models(answer, places, base, course)
    found = {name: [wrong(name, c, rule[0]) for c in rule] for name in WRONG}
    others = [(f"alignment {ALIGNMENTS[1]}", selection, ALIGNMENTS[1])]
    for name in ("sgd", "adam"):
        of = replace(selection, optimizer=name, update=None)
        others.append((f"the rule of {name}", of, ALIGNMENTS[0]))
    for name, of, alignment in others:
        with suppress(Refusal):
            theirs = _models(Answer(of), places, base, course, alignment)
            pairs = zip(rule, theirs, strict=True)
            found[name] = [of_another(c, rule[0], other, theirs[0]) for c, other in pairs]
    kept, same, vectors = {"the rule": rule}, list[str](), course.settings.step == "all"
    for name, each in found.items():
        equal = [
            [alike(*pair, vectors) for pair in zip(each, k, strict=True)] for k in kept.values()
        ]
        if any(map(all, equal)):
            same.append(name)
        else:  # where it is the rule, runs are shared
            both = zip(rule, each, equal[0], strict=True)
            kept[name] = [c if is_it else own for c, own, is_it in both]
    if len(kept) == 1:
        raise InputError(f"rivals was given for one size, where all rules are one: {places[0]}")
    beside = {n: _candidate(n, answer, each, places, course) for n, each in kept.items()}
    return {"the rule": beside.pop("the rule")}, beside, same
