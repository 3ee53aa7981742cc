"""Experiments: a rule or a published scheme predicted, verified and trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepnet_theory.cli.deriving import Alignment, derived, export, refuse, subject_of
from deepnet_theory.definitions import outcome
from deepnet_theory.definitions.outcome import InputError, Refusal, unknown
from deepnet_theory.definitions.record import Option, read, taken
from deepnet_theory.definitions.rule import COMPLETE, PUBLISHED, Rule
from deepnet_theory.definitions.selection import ALIGNMENTS, Selection, Stack
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.exponents import predictions, scheme_predictions

if TYPE_CHECKING:
    from deepnet_theory.definitions.constants import Constants
    from deepnet_theory.definitions.measurement import Plan, Result
    from deepnet_theory.laboratory.settings import Settings
    from deepnet_theory.laboratory.training import Built, Course, Setup
    from deepnet_theory.processes.jobs import Work
    from deepnet_theory.proof.derivation import Derivation

Given = Mapping[str, Any]  # fields of Measurement, and of processes.Work: who does the work
Many = str | Iterable[object] | None  # a list, or a text of it with commas
Depths = Annotated[Many, Option("LIST", "8,16,32 or 8:1000; of two stacks 8x6,16x6; 8:128")]
Widths = Annotated[Many, Option("LIST", "Widths: 64,128,256 or 64:1024")]
Rates = Annotated[str | Iterable[float], Option("LIST", "Learning rates: 1e-4,1e-3 or 1e-4:1e-1")]
Closures = Annotated[Many, Option("LIST", "A curve each, judged by the first", folder="closures")]
Seeds = Annotated[int | None, Option("N", "Repetitions; 3, and up to 8 until it is decided")]

WIDTHS = "64:1024"
VOCABULARY = 32  # bytes modulo it: fewer than the width, as the law of a table has it
WIDE_LAYERS = 4  # of what is trained at several widths
WIDE_TOKENS = 8  # few beside the width
RULES = ("rule", "sp")
RULE = "the rule"  # among its rivals


def settings_and_work(given: Given) -> tuple[Settings, Work]:
    """The laboratory's settings, and who does the work; :class:`InputError` for other names."""
    from deepnet_theory.laboratory.settings import Settings
    from deepnet_theory.processes.jobs import split

    measure, work = split(given)
    return read(Settings, measure, "a measurement"), work


def predict_update(
    derivation: Derivation | Selection | str | None = None, depths: Depths = None, **given: Any
) -> Result:
    r"""Predict :math:`\|\Delta F\|/\eta` per token in absolute size, at any depth.

    .. math:: E\|\Delta F\|^2 = L\,E\|V\|^2 + L(L-1)\,E\langle V, V'\rangle

    V, V' are what two of the L layers add, sampled as in :func:`verify`, whose parameters it takes.
    10,000 layers cost as much as 8.

    Source: derived here.
    """
    from deepnet_theory.laboratory import verify as laboratory
    from deepnet_theory.laboratory.settings import wanted_depths

    subject = subject_of(derivation, given)
    refuse(given, "with predict, which predicts the first update", "updates", "eta")
    settings, work = settings_and_work(given)
    selection, used = subject.measured()
    wanted = wanted_depths(depths, selection.the_stack)
    cases = laboratory.cases_of(selection, used, wanted, settings, subject.scheme)
    return laboratory.predict(cases, **work)


def verify(
    derivation: Derivation | Selection | str | None = None,
    depths: Depths = None,
    *,
    across: Annotated[str, Option("NAME", "depth or width", ("depth", "width"))] = "depth",
    widths: Widths = None,
    alignment: Alignment = None,
    seeds: Seeds = None,
    **given: Any,
) -> Result:
    r"""Measure :math:`\|\Delta F\|/\eta` per token on real stacks and test the exponents.

    .. math:: \frac{\|\Delta F\|}{\eta} = \frac1{\eta T} \sum_{t=1}^{T}
              \Bigl(\sum_{i=1}^{d} (F_{ti}(\theta + \Delta\theta) - F_{ti}(\theta))^2\Bigr)^{1/2}

    F is the stack's output before the head (tokens T, width d), Δθ one step on one batch. Without
    ``seeds`` it begins with 3, at three depths if none are given, and adds both until every
    predicted exponent is decided (:func:`~deepnet_theory.laboratory.verify.looks_at`).

    ``across`` "width" measures the builder's models at several ``widths``, with the rule relative
    to the smallest: the relative change of F by one update, and the change of the loss. Both should
    be the same at every width. ``given`` are the fields of a selection; your own ``rule``, or
    ``alpha`` and ``beta``, or a published ``scheme``; and the fields of
    :class:`~deepnet_theory.laboratory.settings.Settings` and
    :class:`~deepnet_theory.processes.jobs.Work`, which changes no result.

    Raises :class:`InputError` for bad settings and :class:`Refusal` where no law is known.

    Source: the model update of DeepNet, arXiv 2203.00555, §4.1, per unit of the learning rate;
    across the width as in Everett et al., arXiv 2407.05872, and Yang et al., arXiv 2310.17813.
    """
    from deepnet_theory.laboratory.settings import wanted_depths
    from deepnet_theory.laboratory.verify import looks_at
    from deepnet_theory.laboratory.verify import verify as run

    subject = subject_of(derivation, given)
    given |= {} if seeds is None else {"seeds": seeds}
    if across == "width":
        if subject.rule is not None or subject.scheme is not None:
            raise InputError("verify across width takes the derived rule: leave rule or scheme out")
        places = depths or [2], widths or WIDTHS
        return _in_width(subject.answer.selection, *places, alignment or ALIGNMENTS[0], given)
    if across != "depth":
        raise unknown("across", across, ("depth", "width"))
    refuse({"widths": widths, "alignment": alignment}, "without across width")
    (selection, used), rows = subject.measured(), {}
    if subject.scheme is not None:
        its = f"with the scheme {subject.scheme.name!r}, whose exponent is that of its matrices"
        refuse(given, its, "step")
        expected = scheme_predictions(subject.scheme, selection)
    settings, work = settings_and_work(given)
    if subject.scheme is None:
        proved = derived(subject.answer)
        expected = predictions(selection, used, settings.step)
        expected = replace(expected, assumptions=proved.predictions.assumptions)
        if subject.rule is None:
            rows = {row.named: row.rule.told() for row in proved.rows}
    wanted, looks = wanted_depths(depths, selection.the_stack), []
    if seeds is None:
        looks = looks_at(wanted, settings.seeds, fewer_depths=depths is None)
    measured = run(
        selection, used, expected, wanted, settings, scheme=subject.scheme, looks=looks, **work
    )
    return replace(measured, of={**measured.of, "rows": rows})


def _in_width(
    selection: Selection, depths: Depths, widths: Depths, alignment: str, given: Given
) -> Result:
    """The builder's models of the exported rule, measured as :func:`measure` does any family."""
    from deepnet_theory.definitions.measurement import VERIFICATION
    from deepnet_theory.laboratory import judging, measuring, model_steps, model_update

    own = "with across width, which has its own: widths, the first update and text"
    refuse(given, own, "width", "step", "updates", "eta", "draws", "data")
    places = measuring.places_of(depths, widths, stack=one_part(selection))
    wanted = sorted({place["d"] for place in places})
    settings, work = settings_and_work({"tokens": WIDE_TOKENS, **given, "width": wanted[0]})
    answer = Answer(selection)
    more = {"alignment": alignment, "vocab": VOCABULARY}
    models = _models(answer, places, settings, wanted[0], **more)
    at = {(*place.values(),): model for place, model in zip(places, models, strict=True)}
    found = measuring.measure(
        partial(_built, at, settings), sorted({depth for depth, _ in at}), widths=wanted,
        optimizer=partial(_grouped, selection.the_optimizer), seeds=settings.seeds,
        seed=settings.seed, **work,
    )  # fmt: skip
    of = {"select": {**selection.to_dict(), "across": "width"}, "rule": asdict(answer.rule.plain())}
    told = {**settings.to_dict(), "width": wanted, "depths": found.settings["depths"]}
    # a parameter by itself is measured with less certainty, and decides nothing here
    decisive = model_update.ALL, model_steps.ANSWER
    exponents = tuple(e for e in found.exponents if e.share in decisive)
    verdict = outcome.Verdict.UNDECIDED if found.stopped else judging.verdict_on(exponents)
    return replace(
        found, schema=VERIFICATION, of=of, settings=told, exponents=exponents, verdict=verdict
    )


def _built(
    models: Mapping[tuple[int, ...], Constants], settings: Settings, depth: int, width: int
) -> tuple[Any, Any]:
    """A model of the exported rule, and windows of text that are the same at every size."""
    import torch

    from deepnet_theory.laboratory.text import text_windows
    from deepnet_theory.runtime import build

    windows = text_windows(settings.batch, settings.tokens, torch.default_generator) % VOCABULARY
    return build(models[depth, width]), windows


def _grouped(optimizer: Any, model: Any) -> Any:
    """The steps of an optimizer's expression at the rates that a built model's rule gives."""
    from deepnet_theory.laboratory.stepping import RATE, Expressed
    from deepnet_theory.models.groups import parameter_groups

    return Expressed(parameter_groups(model, RATE), optimizer, RATE)


# ---- trained ----


def transfer(
    selection: Selection | Derivation | Callable[..., object] | str | None = None,
    depths: Depths = None,
    rates: Rates = (),
    closures: Closures = None,
    *,
    widths: Widths = None,
    batches: Annotated[Many, Option("LIST", "Batches: 4,16,64, on as many sequences each")] = None,
    rules: Annotated[Many, Option("LIST", "Across widths, a curve each: rule, sp", RULES)] = None,
    steps: Annotated[Many | int, Option("LIST", "Steps of the optimizer; 200,800,3200")] = 100,
    rivals: Annotated[bool, Option("", "Also train wrong rules: the test must refute one")] = False,
    plan: Annotated[bool, Option("", "Print what --rivals would train, and its power")] = False,
    text: Annotated[str | Path | None, Option("FILE", "Text to train on")] = None,
    batch: Annotated[int | None, Option("N", "Sequences a batch; 8")] = None,
    seeds: Annotated[int, Option("N", "Independent repetitions")] = 4,
    **given: Any,
) -> Result | Plan:
    r"""Train at every depth with every learning rate, and say whether the best one transfers.

    .. math:: \eta^*(N) \propto N^{c}, \qquad \text{it transfers where the interval of } c
              \text{ over seeds lies inside } \pm\tfrac1{16}

    The loss is the validation loss on ``text``, next byte, after ``steps`` steps of the selection's
    optimizer. Every kind of parameter is trained at its derived multiplier. There is a curve for
    each depth and closure, by default ``complete`` and that of :func:`derive`. With ``widths`` each
    depth is trained at each of them, and the curves are of ``rules``: "rule", relative to the
    smallest width, and "sp", standard parametrisation at one learning rate. With ``batches`` each
    size is trained at each of them, on as many sequences: ``steps`` are those of the smallest
    batch, and rates and decays take the factors of :func:`derive` across batch.

    With several ``steps`` each size is trained for each number T of them. How the best rate falls
    with T depends on the loss and on the schedule: its exponent is measured, and no rule. In a
    closure ``signal`` is s, the power of T in the loss, also from losses at one constant rate. A
    forecast is refused where s ≤ u is in the interval
    (:func:`~deepnet_theory.laboratory.optimum.of_steps`).

    ``rivals`` are wrong rules made from the rule's own table, the same at the smallest size. They
    are trained near its best rate. SUPPORTED also needs a REFUTED rival and a power of 0.8.
    ``plan`` gives the number of runs and the power, and trains nothing.

    Your own training is a function, or a text ``FILE.py:NAME``, in place of the selection.
    ``train_setup(depth, width, lr, seed)`` takes those of the names, and of ``steps``, that it
    needs. It returns ``step, evaluate`` or ``step, evaluate, baseline``: ``step()`` trains once and
    may return the loss, ``evaluate()`` returns the number to minimise. A run that ends no better
    than ``baseline``, a model that ignores its input, has failed; a number that is not finite or an
    :class:`ArithmeticError` has diverged. With an optimizer or an update the function gives models,
    as :func:`~deepnet_theory.laboratory.measuring.measure` takes them. ``rivals`` need such models
    and an optimizer by its name: every rule is put into them in the form "weights".

    ``given`` is that of :func:`verify`, without your own rule or a scheme. An interrupt (Ctrl-C)
    gives the partial result. Raises :class:`InputError` for bad input and :class:`Refusal` where a
    closure gives no rule, or only the first step of the optimizer is known.
    """
    from deepnet_theory.laboratory import training
    from deepnet_theory.laboratory import transfer as runs
    from deepnet_theory.laboratory.measuring import places_of
    from deepnet_theory.laboratory.settings import parse_widths, wanted_depths
    from deepnet_theory.processes.jobs import split

    asked = {**given, "closures": closures, "rules": rules, "text": text, "batch": batch}
    asked |= {"batches": batches, "rivals": rivals or None, "plan": plan or None}
    runs_of = parse_widths(str(steps) if isinstance(steps, int) else steps or (), 1, "steps", 1)
    dials = [{"T": n} for n in runs_of] if len(runs_of) > 1 else [{}]  # at every size
    if dials != [{}]:
        refuse(asked, "with several steps, over which no rule is derived", "rivals", "batches")
    if not rivals:
        refuse(asked, "without rivals", "plan")
    of, beside = dict[str, Any](), dict[str, Any]()
    candidates: runs.Trainers = {}
    if callable(selection) or (isinstance(selection, str) and ":" in selection):
        stepped, (told, work) = taken(given, ("optimizer", "update")), split(given)
        others = asked.keys() - stepped.keys() - work.keys() - {"seed", "rivals", "plan"}
        refuse(asked, f"with {outcome.shown(selection)}, which has its own", *sorted(others))
        sizes = places_of(depths, widths, fewest_widths=1)
        places = tuple({**place, **more} for place in sizes for more in dials)
        setup = training.setup_of(selection, runs_of[0], places[0], **stepped)
        of |= {"model": setup.name}
        of |= {"optimizer": setup.stepped.name} if setup.stepped else {}
        told = {"seed": 0, **told, "steps": runs_of[0], "seeds": seeds}
        device, candidates = "auto", {"own": setup}
        ruled = partial(_beside_own, setup, places, stepped.get("optimizer"))
    else:
        verifies = ("draws", "updates", "eta", "rule", "scheme", "alpha")
        refuse(asked, "with transfer, which has none: it is for verify", *verifies)
        selection = subject_of(selection, given).answer.selection
        stack = one_part(selection)
        if wide := widths is not None:
            refuse(asked, "with widths, whose curves are of rules", "closures", "width")
        else:
            refuse(asked, "without widths", "rules")
        if rivals:
            refuse(asked, "with rivals, which are of one rule", "rules", "closures")
        if batches is not None:
            refuse(asked, "with batches, which are several", "batch")
            dials = [{"B": n} for n in parse_widths(batches, 2, "batches", 1)]
        few = depths is None and (wide or dials != [{}])
        sizes = places_of(
            wanted_depths([WIDE_LAYERS] if few else depths, stack), widths, stack=stack
        )
        places = tuple({**place, **more} for place in sizes for more in dials)
        given |= {"width": places[-1]["d"]} if wide else {}
        given |= {"batch": places[0].get("B", 8) if batch is None else batch, "seeds": seeds}
        settings, work = settings_and_work(given)
        work.setdefault("processes", None)  # the builder's models are trained on all cores
        # a worker elsewhere has another folder
        file = None if text is None else str(Path(text).absolute())
        course = training.Course(selection.the_optimizer, settings, runs_of[0], file)
        of["select"] = {k: v for k, v in selection.to_dict().items() if k != "closure"}
        told, device = course.to_dict(), settings.device
        if not rivals:
            names, base = (rules, places[0]["d"]) if wide else (closures, None)
            candidates = {**_candidates(selection, names, places, base, course)}
        ruled = partial(_beside_built, selection, places, course)
    if rivals:
        of["left_out"], beside = ruled()
        if plan:
            return runs.planned(beside, of["left_out"], places, rates, seeds)
        candidates = {RULE: beside.pop(RULE)}
    return runs.transfer_of(of, told, candidates, places, rates, device, beside, **work)


# ---- the models of a rule ----


def one_part(selection: Selection) -> Stack:
    """The stack of a selection; :class:`InputError` for an encoder–decoder."""
    if len(selection.the_stack.parts) > 1:
        raise InputError(
            f"the stack {selection.stack!r} is not of one part; valid are: encoder, decoder"
        )
    return selection.the_stack


def _models(
    answer: Answer, places: Iterable[Given], settings: Settings, base: Any = None, **more: Any
) -> list[Constants]:
    """The constants of a rule at every place; relative to a ``base``, with as many heads."""
    more |= {name: getattr(settings, name) for name in ("heads", "ffn_ratio", "activation")}
    if base is not None:
        more |= {"base": base, "base_heads": settings.heads}
    found: list[Constants] = []
    for place in places:
        layers = {s: n for s, n in place.items() if s not in "dBT"}
        sizes = {"width": place.get("d", settings.width)}
        if "B" in place:  # `settings` have the smallest batch
            sizes |= {"batch": place["B"], "base_batch": settings.batch}
        with warnings.catch_warnings(action="ignore", category=outcome.UnstableWarning):
            found.append(export(answer, layers, **sizes, **more))
    return found


def _trained(
    name: str, rule: Rule, models: Iterable[Constants], places: Iterable[Given], course: Course
) -> Built:
    from deepnet_theory.laboratory import settings, training, transfer

    pairs = zip(map(settings.depth_key, places), map(transfer.causal, models), strict=True)
    rhos = dict.fromkeys(entry.rho for entry in rule.entries)
    return training.Built(name, dict(pairs), course, ", ".join(rhos))


def _candidates(
    selection: Selection, names: Any, places: Sequence[Given], base: int | None, course: Course
) -> dict[str, Built]:
    """What is trained: the rule of every closure, or with a ``base`` width every one of RULES."""
    published = Answer(replace(selection, closure=PUBLISHED))
    both = (COMPLETE.name, published.closure) if base is None else RULES
    several = names.split(",") if isinstance(names, str) else names or both
    found: dict[str, Built] = {}
    for name in (one.strip().lower() for one in several):
        if base is not None and name not in RULES:
            raise unknown("rule", name, RULES)
        answer = Answer(replace(selection, closure=name) if base is None else selection)
        models = _models(answer, places, course.settings, base if name == RULES[0] else None)
        found[name] = _trained(name, answer.rule, models, places, course)
    return found


def _beside_built(
    selection: Selection, places: Sequence[Given], course: Course
) -> tuple[list[str], dict[str, Built | Setup]]:
    """The builder's models of the rule relative to the first place, and of wrong ones."""
    base = places[0].get("d", course.settings.width), next(iter(places[0].values()))

    def models(under: str | None, alignment: str) -> list[Constants]:
        of = selection if under is None else replace(selection, optimizer=under, update=None)
        return _models(Answer(of), places, course.settings, base, alignment=alignment)

    same, kept = _beside(models, places, course.settings.step == "all")
    true = Answer(selection).rule
    return same, {n: _trained(n, true, each, places, course) for n, each in kept.items()}


def _beside_own(
    setup: Setup, places: Sequence[Given], optimizer: object
) -> tuple[list[str], dict[str, Built | Setup]]:
    """The same for the models of a factory, which :func:`apply_` can put the constants into."""
    from deepnet_theory.cli.exporting import constants_for
    from deepnet_theory.definitions.constants import WEIGHTS
    from deepnet_theory.laboratory.settings import depth_key
    from deepnet_theory.models.reading import read as read_model

    if setup.stepped is None or not isinstance(optimizer, str) or ":" in optimizer:
        raise InputError(
            f"rivals was given with {setup.name} and no optimizer by its name: a wrong rule is put "
            "into a plain model; give a factory of models and an optimizer, such as adamw"
        )
    made = [setup.factory.seeded(0, place.get("N"), width=place.get("d")) for place in places]
    readings = [read_model(whole) for whole in made]
    first = readings[0]
    if len(first.layers) > 1:
        raise InputError(f"{setup.name} is of {' and '.join(first.layers)}: rivals take one stack")
    base = first.sublayers[0].matrices[0].fan_in, next(iter(first.layers.values()))

    def models(under: str | None, alignment: str) -> list[Constants]:
        named = under or optimizer
        given: dict[str, Any] = {"base": base, "alignment": alignment, "form": WEIGHTS}
        return [constants_for(reading, named, **given) for reading in readings]

    same, kept = _beside(models, places, vectors=True)
    keys = [depth_key(place) for place in places]
    each = {name: dict(zip(keys, ruled, strict=True)) for name, ruled in kept.items()}
    return same, {name: replace(setup, constants=ruled) for name, ruled in each.items()}


def _beside(
    models: Callable[[str | None, str], list[Constants]], places: Sequence[Given], vectors: bool
) -> tuple[list[str], dict[str, list[Constants]]]:
    """The names of wrong rules that are another one here; the rule and the others by place.

    ``models`` gives the constants at every place, by an optimizer and an alignment.
    """
    from deepnet_theory.sizes.rivals import WRONG, alike, of_another, wrong

    full, none = ALIGNMENTS
    rule = models(None, full)
    found = {name: [wrong(name, c, rule[0]) for c in rule] for name in WRONG}
    others: dict[str, tuple[str | None, str]] = {f"alignment {none}": (None, none)}
    others |= {f"the rule of {name}": (name, full) for name in ("sgd", "adam")}
    for name, of in others.items():
        with suppress(Refusal):
            first, *_ = theirs = models(*of)
            pairs = zip(rule, theirs, strict=True)
            found[name] = [of_another(c, rule[0], other, first) for c, other in pairs]
    kept, same = {RULE: rule}, list[str]()
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
    return same, kept
