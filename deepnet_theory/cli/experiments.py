"""Experiments: a rule or a published scheme predicted, verified beside its rivals, and trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from deepnet_theory.cli.deriving import (
    answered,
    derived,
    export,
    own_rule,
    selection_of,
    settings_and_work,
    staged,
)
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError, Verdict, shown, unknown
from deepnet_theory.definitions.rule import PLAIN, Rule
from deepnet_theory.definitions.scheme import measurable
from deepnet_theory.definitions.scheme import scheme as scheme_named
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import EPSILON
from deepnet_theory.sizes.answer import Answer, for_training
from deepnet_theory.sizes.exponents import predictions, relative_updates
from deepnet_theory.sizes.exponents import rival_rules as solve
from deepnet_theory.sizes.exported import constants_of, constants_of_scheme, stack_of_scheme
from deepnet_theory.sizes.rule import closure_of
from deepnet_theory.sizes.schemes import predictions as judged

if TYPE_CHECKING:
    from deepnet_theory.cli.deriving import Given
    from deepnet_theory.definitions.measurement import Predictions, Result
    from deepnet_theory.definitions.scheme import Scheme
    from deepnet_theory.definitions.training import Transfer
    from deepnet_theory.laboratory.settings import Settings
    from deepnet_theory.laboratory.verify import Watch
    from deepnet_theory.proof.derivation import Derivation

Depths = str | Iterable[object] | None
RIVAL_SEEDS, RIVAL_DRAWS = 4, 2  # enough to tell slopes apart by a quarter; a rival is no verdict
WIDTHS = "64:1024"
VOCABULARY = 32  # bytes modulo it: fewer than the width, as the law of a table has it
WIDE_LAYERS = 4  # of what is trained at several widths
RULES = ("rule", "sp", "sp-sizes")
WIDE: Given = {"tokens": 8}  # few beside the width
TRANSFER: Given = {"batch": 8, "seeds": 4}  # what training takes where it is not given


def predict(
    derivation: Derivation | Selection | str, rule: Rule | None = None, step: str = "matrices"
) -> Predictions:
    """The exponents that the derivation's laws predict for its own rule, or for ``rule``.

    ``step`` says which parameters are stepped: the branch ``matrices``, or ``all``. A rule of
    one's own rests on the premises of the derivation too.
    """
    derivation = derived(derivation)
    if rule is None and step == "matrices":
        return derivation.predictions
    exponents = predictions(derivation.selection, rule or derivation.rule, step)
    return replace(exponents, assumptions=derivation.predictions.assumptions)


class Subject(NamedTuple):
    """What is measured or predicted: a rule, the derived one or your own, or a published scheme."""

    selection: Selection
    rule: Rule
    scheme: Scheme | None


def _of_scheme(given: Derivation | Selection | str | None, rule: Rule | None, name: str) -> Subject:
    """A published scheme, stepped by its own optimizer or that of a selection."""
    if rule is not None:
        raise InputError(f"rule was given with the scheme {name!r}, which has its own")
    scheme, asked = scheme_named(name), None if given is None else selection_of(given, {})
    stepped = (None, None) if asked is None else (asked.optimizer, asked.update)
    return Subject(*measurable(scheme, *stepped), scheme)


def predict_update(
    derivation: Derivation | Selection | str | None = None,
    depths: Depths = None,
    *,
    rule: Rule | None = None,
    scheme: str | None = None,
    **given: Any,
) -> Result:
    r"""Predict :math:`\|\Delta F\|/\eta` per token in absolute size, at any depth.

    .. math:: E\|\Delta F\|^2 = L\,E\|V\|^2 + L(L-1)\,E\langle V, V'\rangle

    with V, V' what two of the L layers add. They are sampled with the data, embeddings and heads of
    :func:`verify`; no stack is built, and 10,000 layers cost what 8 do. Where the rule scales a
    norm's ε, a warning says what a fixed one gives. ``depths``, ``rule``,
    ``scheme`` and ``given`` are those of :func:`verify`. Raises :class:`InputError` for bad
    settings.

    Source: derived here.
    """
    from deepnet_theory.laboratory.settings import depth_key, wanted_depths
    from deepnet_theory.laboratory.verify import cases_of, predict

    # Two sampled layers stand for all of them, what they have in common adding as L and the rest as
    # √L; a closed form would be that of Gaussian entries, and tokens of a text are correlated.
    settings, work = settings_and_work(given)
    if settings.updates > 1:
        raise InputError(
            f"updates {settings.updates} was given, and what is predicted is the first update"
        )
    if scheme is not None:
        subject = _of_scheme(derivation, rule, scheme)
    else:
        used = answered(derivation).rule if rule is None else rule
        subject = Subject(selection_of(derivation, {}), used, None)
    wanted = wanted_depths(depths, subject.selection.the_stack)
    selection, used, its = subject
    found = predict(cases_of(selection, used, wanted, settings, its), **work)
    fixed = replace(used, entries=tuple(replace(e, norm_epsilon=()) for e in used.entries))
    if fixed == used:
        return found
    left = predict(cases_of(selection, fixed, wanted, settings, its), **work)
    sizes = ", ".join(
        f"{one.mean:.4g} ({one.mean / scaled.mean:.0%}) at depth {depth_key(one.at)}"
        for one, scaled in zip(left.points, found.points, strict=True)
    )
    warning = f"with the epsilon of every norm left at {EPSILON:g} it is {sizes}"
    told = replace(found.provenance, warnings=(*found.provenance.warnings, warning))
    return replace(found, provenance=told)


def verify(
    derivation: Derivation | Selection | str | None = None,
    depths: Depths = None,
    *,
    rule: Rule | None = None,
    scheme: str | None = None,
    across: str = "depth",
    widths: str | Iterable[object] | None = None,
    alignment: str | None = None,
    watch: Watch | None = None,
    **given: Any,
) -> Result:
    r"""Measure :math:`\|\Delta F\|/\eta` per token on real stacks and test the exponents.

    .. math:: \frac{\|\Delta F\|}{\eta} = \frac1{\eta T} \sum_{t=1}^{T}
              \Bigl(\sum_{i=1}^{d} (F_{ti}(\theta + \Delta\theta) - F_{ti}(\theta))^2\Bigr)^{1/2}

    after one step on the batch at hand; F is the stack's output before the head, of shape
    (tokens T, width d).

    ``depths`` is a list, or a text such as ``"8,16,32"``; ``rule`` replaces the derived rule, and
    ``watch`` receives each depth's point as it is measured. A published ``scheme`` is held against
    its judged exponent, under the optimizer of the selection. ``across`` "width" or "both"
    measures the builder's models at several ``widths``, with the rule relative to the least of
    them: by how much of itself one update moves F, and by how much the loss answers. Both are to be
    the same at every width; "both" takes several depths too.
    ``given`` are the fields of
    :class:`~deepnet_theory.laboratory.settings.Settings` (``width``, ``seeds``, ``data`` …) and
    of :class:`~deepnet_theory.processes.Work`: ``processes`` share the work (None: one a core,
    where the work is long), or any ``executor`` of ``concurrent.futures`` does it, and the result
    is the same; ``cache`` is a folder where finished work is kept and found again, True for the
    user's own; ``progress`` hears of the work done. Across the width 8 tokens are the default: few
    beside the width.

    Raises :class:`InputError` for bad settings and :class:`Refusal` where no law is known.

    Source: the model update of DeepNet, arXiv 2203.00555, §4.1, per unit of the learning rate;
    across the width derived here, measured as in Everett et al., arXiv 2407.05872, and Yang et al.,
    arXiv 2310.17813.
    """
    in_width: dict[str, Any] = {"widths": widths, "alignment": alignment}
    asked = {name: value for name, value in in_width.items() if value is not None}
    if across != "depth":
        for name, value in {"rule": rule, "scheme": scheme}.items():
            if value is not None:
                raise InputError(f"{name} was given, which is for verify in depth")
        selection = selection_of(derivation, {})
        return _verify_width(selection, depths, across=across, watch=watch, **asked, **given)
    for name in asked:
        raise InputError(f"{name} is for verify across the width: give across='width' or 'both'")
    settings, work = settings_and_work(given)
    if scheme is not None:
        if settings.step != "matrices":
            raise InputError(
                f"step {settings.step!r} was given with the scheme {scheme!r}, whose exponent is "
                "that of its matrices; valid is 'matrices'"
            )
        published = _of_scheme(derivation, rule, scheme)
        assert published.scheme is not None
        its = judged(published.scheme, published.selection)
        return _verified(
            *published[:2], its, depths, settings, watch=watch, scheme=published.scheme, **work
        )
    derivation = derived(derivation)
    subject = (derivation.selection, rule or derivation.rule)
    predicted = predict(derivation, rule, settings.step)
    measured = _verified(*subject, predicted, depths, settings, watch=watch, **work)
    rows = () if rule is not None else derivation.rows
    return replace(measured, of={**measured.of, "rows": {row.named: row.told() for row in rows}})


def _verify_width(
    selection: Selection,
    depths: Depths,
    *,
    across: str,
    watch: Watch | None,
    widths: str | Iterable[object] = WIDTHS,
    alignment: str = "full",
    **given: Any,
) -> Result:
    """The builder's models of the exported rule, measured as :func:`measure` does any family."""
    from deepnet_theory.definitions.measurement import VERIFICATION
    from deepnet_theory.laboratory.judging import ALL, verdict_on
    from deepnet_theory.laboratory.measuring import measure
    from deepnet_theory.laboratory.model_steps import ANSWER
    from deepnet_theory.laboratory.settings import FEWEST, parse_depths, parse_widths

    for name in ("width", "step", "updates", "eta", "draws", "data"):
        if name in given:
            raise InputError(
                f"{name} was given, which is for verify in depth; across width the widths, the "
                "first update and all parameters are measured on text"
            )
    if len(selection.the_stack.parts) > 1:
        raise InputError(f"across width stacks have one part, and {selection.stack!r} has two")
    wanted, both = parse_widths(widths), across == "both"
    deep = parse_depths(depths or ([2, 4, 8] if both else [2]), selection.the_stack)
    if both and len(deep) < FEWEST:
        raise InputError(
            f"{len(deep)} depths give no exponent beside the width: {FEWEST} are needed"
        )
    settings, work = settings_and_work({**WIDE, **given, "width": wanted[0]})
    answer = Answer(for_training(selection))
    rule: Given = {"base": wanted[0], "base_heads": settings.heads, "alignment": alignment}
    made = partial(_built, answer, rule, settings)
    for width in wanted:  # one that the heads do not divide is refused before measuring
        export(answer, next(iter(deep[0].values())), **rule, **_sizes(settings, width))
    found = measure(
        made, [next(iter(depth.values())) for depth in deep], widths=wanted,
        optimizer=partial(_grouped, selection.the_optimizer), seeds=settings.seeds,
        seed=settings.seed, watch=watch, **work,
    )  # fmt: skip
    of = {"select": {**selection.to_dict(), "across": across}, "rule": asdict(answer.rule.plain())}
    told = {**settings.to_dict(), "width": list(wanted), "depths": found.settings["depths"]}
    # a parameter by itself is measured with less certainty, and decides nothing here
    decisive = tuple(e for e in found.exponents if e.share in (ALL, ANSWER))
    verdict = Verdict.UNDECIDED if found.stopped else verdict_on(decisive)
    return replace(
        found, schema=VERIFICATION, of=of, settings=told, exponents=decisive, verdict=verdict
    )


def _sizes(settings: Settings, width: int) -> dict[str, Any]:
    """The architecture of a model of a width."""
    names = ("heads", "ffn_ratio", "activation")
    return {**{n: getattr(settings, n) for n in names}, "width": width, "vocab": VOCABULARY}


def _built(
    answer: Answer, rule: Mapping[str, Any], settings: Settings, depth: int, width: int
) -> tuple[Any, Any]:
    """A model of the exported rule, and windows of text that are the same at every size."""
    import torch

    from deepnet_theory.laboratory.text import text_windows
    from deepnet_theory.runtime import build

    windows = text_windows(settings.batch, settings.tokens, torch.default_generator) % VOCABULARY
    return build(export(answer, depth, **rule, **_sizes(settings, width))), windows


def _grouped(optimizer: Any, model: Any) -> Any:
    """The steps of an optimizer's expression at the rates that a built model's rule gives."""
    from deepnet_theory.laboratory.stepping import RATE, Expressed
    from deepnet_theory.models.groups import parameter_groups

    return Expressed(parameter_groups(model, RATE), optimizer, RATE)


def _verified(
    selection: Selection,
    rule: Rule,
    predicted: Predictions,
    depths: Depths,
    settings: Settings,
    shares: bool = True,
    **how: Any,
) -> Result:
    from deepnet_theory.laboratory.settings import wanted_depths
    from deepnet_theory.laboratory.verify import verify as run

    wanted = wanted_depths(depths, selection.the_stack)
    return run(selection, rule, predicted, wanted, settings, shares=shares, **how)


def _one_by_one(
    names: Iterable[str], given: Given, prefix: str, measure: Callable[[str, Given], Result]
) -> list[Result]:
    """One measurement after the other, each a stage of the progress, until one is stopped."""
    names, done = list(names), []
    for index, name in enumerate(names):
        share = 1 / len(names)
        done.append(measure(name, staged(given, index * share, share, f"{prefix}{name}, ")))
        if done[-1].stopped:
            break
    return done


def rival_rules(derivation: Derivation | Selection | str) -> tuple[Rule, ...]:
    """What the theory gives SGD, Adam and LAMB on the same network, and the plain α = β = 1.

    Rules that agree are one, under both names; one that agrees with the derived rule is left out.
    """
    derivation = derived(derivation)
    rules = {**solve(derivation.selection), PLAIN: own_rule(derivation, 1, 1)}
    alike: dict[object, list[str]] = {}
    for name, rule in rules.items():
        alike.setdefault((rule.entries, rule.eta), []).append(name)
    alike.pop((derivation.rule.entries, derivation.rule.eta), None)
    return tuple(replace(rules[names[0]], name=", ".join(names)) for names in alike.values())


def verify_rivals(
    derivation: Derivation | Selection | str,
    depths: Depths = None,
    **given: Any,
) -> tuple[Result, ...]:
    """Measure the rivals' rules, stepped by the derivation's own optimizer, to draw beside its own.

    Each is a :func:`verify` of another rule, with at most four of the same seeds and two draws,
    of the whole output alone and without the premises, which are the derivation's own. No exponent
    is predicted where the stack is far from the identity, as a deep plain one is. Raises what
    ``verify`` raises.
    """
    derivation = derived(derivation)
    settings, _ = settings_and_work(given)
    fewer = replace(
        settings,
        seeds=min(settings.seeds, RIVAL_SEEDS),
        draws=min(settings.draws, RIVAL_DRAWS),
    )
    # of the same seeds, so that what a seed's data does to the rule it does to its rivals
    rules = {rule.name: rule for rule in rival_rules(derivation)}

    def measured(name: str, stage: Given) -> Result:
        predicted = predict(derivation, rules[name], settings.step)
        whole = tuple(
            replace(e, exponent=None) if predicted.warnings else e
            for e in predicted.exponents
            if e.share == "all"
        )
        predicted = replace(predicted, exponents=whole, assumptions=())
        subject, (_, work) = (derivation.selection, rules[name]), settings_and_work(stage)
        return _verified(*subject, predicted, depths, fewer, shares=False, **work)

    return tuple(_one_by_one(rules, given, "rule of ", measured))


def transfer(
    selection: Selection | Derivation | Callable[..., object] | str | None = None,
    depths: Depths = None,
    rates: str | Iterable[float] = (),
    closures: Iterable[str] | None = None,
    *,
    widths: str | Iterable[object] | None = None,
    rules: Iterable[str] | None = None,
    rule: Rule | None = None,
    scheme: str | None = None,
    steps: int = 100,
    text: str | Path | None = None,
    outer: str = "stepped",
    optimizer: object = None,
    update: str | None = None,
    **given: Any,
) -> Transfer:
    r"""Train at every depth with every learning rate, and say whether the best one transfers.

    .. math:: \eta^*(N) \propto N^{c}, \qquad \text{it transfers where the interval of } c
              \text{ over seeds lies inside } \pm\tfrac1{16}

    The loss is the held-out one after ``steps`` steps of the selection's optimizer on windows of
    ``text``, next byte. Every kind of parameter is stepped at its derived multiplier; embedding
    and head are too, unless ``outer`` is "held", so that the stack alone decides.
    ``transfer("adam", [8, 32], "1e-4:1e-1", ["complete", "symmetric"])`` makes one curve a depth
    and closure; without ``closures`` of ``complete`` and the one that :func:`derive` shows.
    ``rule`` stands beside them as "own". A published ``scheme`` is trained first, with its own
    constants and beside the ``closures`` that are named; a selection with it says which optimizer
    and stack they are for.

    With ``widths`` every depth, by default one, is trained at each of them. The curves are of
    ``rules``: "rule", relative to the least width; "sp", standard parametrisation at one learning
    rate; "sp-sizes", its initial sizes at the derived rates. Heads become wider with the model.

    A model of one's own is a function or a text ``FILE.py:NAME`` in place of the selection, with
    data, optimizer and schedule of its own: ``train_setup(depth, width, lr, seed)`` returns
    ``step, evaluate``, as :func:`deepnet_theory.laboratory.setups.transfer` says, which takes
    ``steps``, ``seeds``, ``seed`` and who does the work. Depths and widths are those given.

    ``given`` is that of :func:`verify`.
    Raises :class:`InputError` for what cannot be trained and :class:`Refusal` where a closure
    gives no rule, or the optimizer is known by its first step alone.
    """
    from deepnet_theory.definitions.rule import COMPLETE
    from deepnet_theory.laboratory.case import VOCAB
    from deepnet_theory.laboratory.optimum import wanted_rates
    from deepnet_theory.laboratory.settings import depth_key, parse_widths, wanted_depths
    from deepnet_theory.laboratory.training import Built, Course
    from deepnet_theory.laboratory.transfer import Candidate, causal, transfer_of

    if callable(selection) or (isinstance(selection, str) and ":" in selection):
        others: dict[str, object] = {"closures": closures, "rules": rules, "rule": rule}
        others |= {"scheme": scheme, "text": text}
        others |= {"outer": outer} if outer != "stepped" else {}
        stepped = {"optimizer": optimizer, "update": update}
        return _transfer_of_own(selection, depths, widths, rates, steps, stepped, others, given)
    for name, value in {"optimizer": optimizer, "update": update}.items():
        if value is not None:
            raise InputError(f"{name} was given with a selection, which has its own")
    published = None if scheme is None else scheme_named(scheme)
    if published is not None:
        asked = None if selection is None else selection_of(selection, {})
        selection = stack_of_scheme(published, asked)
    selection = selection_of(selection, {})
    stack = selection.the_stack
    if len(stack.parts) > 1:
        raise InputError(
            f"transfer trains stacks of one part, and {selection.stack!r} has two; valid are: "
            "encoder, decoder"
        )
    for name in ("draws", "updates", "eta"):
        if name in given:
            raise InputError(f"{name} was given, which is for verify; leave it out of transfer")
    wide = () if widths is None else parse_widths(widths)
    in_depth = {"closures": closures, "rule": rule, "scheme": scheme, "width": given.get("width")}
    for name, value in in_depth.items():
        if wide and value is not None:
            raise InputError(f"{name} was given with widths, whose curves are of rules")
    if rules is not None and not wide:
        raise InputError("rules were given, which are for widths")
    widest: Given = {"width": wide[-1]} if wide else {}
    settings, work = settings_and_work({**TRANSFER, **given, **widest})
    wanted = wanted_depths([WIDE_LAYERS] if wide and depths is None else depths, stack)
    grid = wanted_rates(rates)
    # a worker elsewhere has another folder
    place = None if text is None else str(Path(text).absolute())
    course = Course(selection.the_optimizer, settings, steps, place, outer)
    sizes = {
        "width": settings.width, "heads": settings.heads, "ffn_ratio": settings.ffn_ratio,
        "vocab": VOCAB, "activation": settings.activation,
    }  # fmt: skip
    # what every curve trains: the rule as data, ρ, and its models
    curves: dict[str, tuple[dict[str, Any], str, Callable[..., Constants]]] = {}
    if wide:
        answer = Answer(for_training(selection))
        wanted = tuple({**depth, "d": width} for depth in wanted for width in wide)
        for name in dict.fromkeys(rules or RULES):
            make = partial(_wide_constants, name, answer, base=wide[0], sizes=sizes)
            rho = _relative_update(selection, answer.rule)
            curves[name] = ({"name": name, "base_width": wide[0]}, rho, make)
    else:
        if published is not None:
            make = partial(_scheme_constants, published, selection, sizes=sizes)
            words = {"name": published.name, "meaning": f"as published: {published.source}"}
            curves[published.name] = (words, "", make)
        usual = [] if published else [COMPLETE.name, closure_of(selection).name]
        names = dict.fromkeys(closures or usual)
        answers = [(name, Answer(replace(selection, closure=name)), None) for name in names]
        for name, answer, other in [*answers, *[("own", Answer(selection), rule)] * bool(rule)]:
            used, make = other or answer.rule, partial(_constants, answer, other, sizes=sizes)
            rho = _relative_update(selection, used)
            curves[name] = (asdict(used.plain()), rho, make)
    candidates = [
        Candidate(name, words, rho, Built(name, {
            depth_key(place): causal(make(place=place)) for place in wanted
        }, course))
        for name, (words, rho, make) in curves.items()
    ]  # fmt: skip
    select = {k: v for k, v in selection.to_dict().items() if k != "closure"}
    told = {**course.to_dict(), "depths": [*map(depth_key, wanted)], "rates": list(grid)}
    told |= {"width": list(wide)} if wide else {}
    seeds = range(settings.seed, settings.seed + settings.seeds)
    device = settings.torch_device
    return transfer_of(select, told, candidates, wanted, grid, seeds, device, **work)


def _transfer_of_own(
    model: Callable[..., object] | str, depths: Depths, widths: Depths,
    rates: str | Iterable[float], steps: int, stepped: Mapping[str, Any],
    others: Mapping[str, object], given: Given,
) -> Transfer:  # fmt: skip
    """Train the runs of one's own factory, which has everything else: ``others`` are refused."""
    from deepnet_theory.laboratory.setups import transfer as run
    from deepnet_theory.processes import split

    measure, work = split(given)
    seeds = {name: measure.pop(name) for name in ("seeds", "seed") if name in measure}
    for name, value in {**others, **measure}.items():
        if value is not None:
            raise InputError(f"{name} was given with {shown(model)}, which has its own")
    return run(model, depths, widths, rates, steps=steps, **seeds, **stepped, **work)


def _constants(
    answer: Answer, rule: Rule | None, place: Mapping[str, int], sizes: Mapping[str, Any]
) -> Constants:
    return constants_of(answer, next(iter(place.values())), rule, "forward", sizes)


def _scheme_constants(
    given: Scheme, selection: Selection, place: Mapping[str, int], sizes: Mapping[str, Any]
) -> Constants:
    return constants_of_scheme(given, selection, next(iter(place.values())), "forward", sizes)


def _wide_constants(
    name: str, answer: Answer, place: Mapping[str, int], base: int, sizes: Mapping[str, Any]
) -> Constants:
    """The constants of a parametrisation at a depth and a width; all agree at the base width."""
    if name not in RULES:
        raise unknown("rule", name, RULES)
    wide = {**sizes, "width": place["d"]}
    if name == "sp":
        return _constants(answer, None, place, wide)
    layers = next(iter(place.values()))
    ruled = export(answer, layers, base=base, base_heads=sizes["heads"], **wide)
    if name == "rule":
        return ruled
    head = replace(ruled.outer["head"], gain=1 / ruled.head_multiplier)
    return replace(ruled, outer={**ruled.outer, "head": head})


def _relative_update(selection: Selection, rule: Rule) -> str:
    """ρ of the scaled matrices in units of η, for each kind of sublayer where they differ."""
    rhos = {entry.sublayer: entry.rho for entry in rule.entries}
    if not all(rhos.values()):  # nobody derived it
        rhos = relative_updates(selection, rule)
    if len({*rhos.values()}) == 1:
        return next(iter(rhos.values()))
    return ", ".join(f"{sublayer} {rho}" for sublayer, rho in rhos.items())
