"""Derive, verify, export, make a report: joins the rooms, computes nothing itself.

Each function imports the room that it needs when it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack

from deepnet_theory.spec import __version__
from deepnet_theory.spec.constants import FORMS, Architecture, Constants, Sizes
from deepnet_theory.spec.depth import DepthLike, parse_depth
from deepnet_theory.spec.errors import (
    InputError,
    Refusal,
    exit_code_after,
    guess,
    shown,
    unknown,
)
from deepnet_theory.spec.files import write_text
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.rule import own_rule as _own_rule
from deepnet_theory.spec.selection import Select, Selection

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from sympy import Expr
    from torch import nn
    from torch.optim import Optimizer

    from deepnet_theory.models.factory import Made
    from deepnet_theory.numeric.stacks.settings import Measure, Settings
    from deepnet_theory.numeric.verify import Watch
    from deepnet_theory.processes import Kept, Progress
    from deepnet_theory.spec.audit import Audit
    from deepnet_theory.spec.prediction import Predictions, UpdatePrediction
    from deepnet_theory.spec.transfer import Transfer
    from deepnet_theory.spec.verification import Verification
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.symbolic.implications.closures_compared import Comparison
    from deepnet_theory.symbolic.schemes.judgement import Judgement


def derive(
    selection: Selection | str | None = None,
    *,
    depth: DepthLike | None = None,
    background: bool = False,
    **select: Unpack[Select],
) -> Derivation:
    r"""Derive the rule for a selection: ``derive("lamb")``, or ``derive(optimizer="lamb")``.

    .. math:: x_{l+1} = \mathrm{norm}(\alpha x_l + \beta B(x_l)), \qquad
              \alpha, \beta:\ \|\Delta F\| = \Theta(\eta) \text{ at every depth}

    for post-LN; a placement brings its own equation. α and β are exact expressions in the
    depths N and M. A text in place of a selection is the name of an optimizer, or an update, which
    contains ``eta``. ``select`` are the fields of :class:`~deepnet_theory.spec.selection.Selection`
    (``optimizer`` or ``update``, ``placement``, ``norm``, ``stack``, ``layer``, ``method``,
    ``closure`` …); with ``depth`` the derivation also prints its numbers there, with
    ``background`` it begins with what the method rests on, step by step. Raises
    :class:`InputError` for unknown names and :class:`Refusal` where no rule exists.

    Source: every step names its own; Su Jianlin's posts (probe), DeepNet, arXiv 2203.00555
    (lemma, its bounds corrected), moments of Gaussian matrices (moments).
    """
    from deepnet_theory.symbolic.derive import derive as run

    selection = _selection(selection, select)
    # A bad depth is refused before the derivation is made.
    at = {} if depth is None else parse_depth(depth, selection.the_stack)
    derivation = run(selection, background)
    return derivation.at(**at) if at else derivation


def compare_closures(
    selection: Selection | str | None = None,
    *,
    depth: DepthLike | None = None,
    **select: Unpack[Select],
) -> Comparison:
    """Every closure's rule and what it implies, side by side.

    As in ``compare_closures(optimizer="sgd")``: ``select`` and ``depth`` are those of
    :func:`derive`, without ``closure``. Raises :class:`Refusal` where no closure balances.
    """
    from deepnet_theory.symbolic.implications.closures_compared import compare_closures as run

    selection = _selection(selection, select)
    if selection.closure is not None:
        raise InputError(
            f"the closure {selection.closure!r} was given, but all closures are compared; "
            "leave it out"
        )
    at = {} if depth is None else parse_depth(depth, selection.the_stack)
    return replace(run(selection), values=tuple(at.items()))


def judge_scheme(
    scheme: str, optimizer: str | None = None, *, update: str | None = None
) -> Judgement:
    """What a published scheme does in depth, under an optimizer (default: its own) and every other.

    As in ``judge_scheme("gpt-2")``; ``update`` is an update of one's own in eta, g and theta.
    Raises :class:`InputError` for unknown names and :class:`Refusal` where a law is missing.
    """
    from deepnet_theory.spec.optimizer import custom_optimizer
    from deepnet_theory.spec.optimizer import optimizer as named
    from deepnet_theory.spec.scheme import scheme as published

    if optimizer is not None and update is not None:
        raise InputError("a scheme is judged under one optimizer: give optimizer or update")
    chosen = published(scheme)
    under = None if optimizer is None else named(optimizer)
    under = custom_optimizer(update) if update is not None else under
    from deepnet_theory.symbolic.schemes.judgement import judge

    return judge(chosen, under)


def _selection(
    selection: Selection | Derivation | str | None, select: Mapping[str, object]
) -> Selection:
    match selection:
        case None:
            return _record(Selection, "a selection", select)
        case str():
            # an update contains the learning rate, and no optimizer is called so
            field = "update" if re.search(r"\beta\b", selection) else "optimizer"
            if field in select:
                raise InputError(f"{field} is given twice: {selection!r} and {select[field]!r}")
            return _record(Selection, "a selection", {**select, field: selection})
        case Selection() | object(selection=Selection()):  # a derivation has its own
            if select:
                raise InputError(f"give a Selection or its fields, not both: {', '.join(select)}")
            return selection if isinstance(selection, Selection) else selection.selection
    raise InputError(
        f"{selection!r:.60} is no selection: give the name of an optimizer, an update in eta, g "
        "and theta, or a Selection"
    )


def _derived(given: Derivation | Selection | str) -> Derivation:
    """A derivation as it is; a selection, or a text that stands for one, is derived."""
    from deepnet_theory.symbolic.derivation import Derivation

    return given if isinstance(given, Derivation) else derive(given)


def own_rule(
    selection: Selection | Derivation | str,
    alpha: str | float | Expr,
    beta: str | float | Expr,
    decoder_alpha: str | float | Expr | None = None,
    decoder_beta: str | float | Expr | None = None,
) -> Rule:
    """A rule of one's own for the stack of ``selection``: α and β in N and M.

    ``own_rule(selection, "N**(1/3)", "N**(-1/3)")``; texts are parsed by the grammar of depths,
    never evaluated as code, numbers and SymPy's expressions as the texts that they print. In
    place of a selection its derivation serves, or a text as in :func:`derive`. An
    encoder–decoder's decoder takes α and β of its own where they are given. Raises
    :class:`InputError` for what is none of these, or a decoder that is not there.
    """
    selection = _selection(selection, {})
    parts = tuple(part.name for part in selection.the_stack.parts)
    if len(parts) == 1 and (decoder_alpha is not None or decoder_beta is not None):
        raise InputError(
            f"the stack {selection.stack!r} has one part; decoder-alpha and decoder-beta are "
            "valid with the stack 'encoder-decoder'"
        )
    decoder = [None if value is None else _text(value) for value in (decoder_alpha, decoder_beta)]
    return _own_rule(parts, _text(alpha), _text(beta), *decoder)


def _text(value: str | float | Expr) -> str:
    """α or β as a text of the grammar of depths."""
    if isinstance(value, str):
        return value
    # bool is a number to Python and never meant as one; SymPy's expressions know what is free
    number = isinstance(value, Real) and not isinstance(value, bool)
    if number or hasattr(value, "free_symbols"):
        with suppress(ValueError):  # more digits than Python writes
            return str(value)
    raise InputError(
        f"{shown(value)} is no alpha or beta: give an expression in N and M, as a text such as "
        '"N**(1/4)", or a number'
    )


def predict(
    derivation: Derivation | Selection | str, rule: Rule | None = None, step: str = "matrices"
) -> Predictions:
    """The exponents that the derivation's laws predict for its own rule, or for ``rule``.

    ``step`` says which parameters are stepped: the branch ``matrices``, or ``all``. A rule of
    one's own rests on the premises of the derivation too.
    """
    derivation = _derived(derivation)
    if rule is None and step == "matrices":
        return derivation.predictions
    from deepnet_theory.symbolic.implications.exponents import predictions

    found = predictions(derivation.selection, rule or derivation.rule, step)
    return replace(found, assumptions=derivation.predictions.assumptions)


def predict_update(
    derivation: Derivation | Selection | str,
    depths: str | Iterable[object] | None = None,
    *,
    rule: Rule | None = None,
    progress: Progress | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
    **measure: Unpack[Measure],
) -> UpdatePrediction:
    r"""Predict :math:`\|\Delta F\|/\eta` per token in absolute size, at any depth.

    .. math:: E\|\Delta F\|^2 = L\,E\|V\|^2 + L(L-1)\,E\langle V, V'\rangle

    with V, V' what two of the L layers add. They are sampled with the data, embeddings and heads of
    :func:`verify`; no stack is built, and 10,000 layers cost what 8 do. ``depths``, ``rule``,
    ``processes``, ``executor``, ``cache`` and ``measure`` are those of :func:`verify`. Raises
    :class:`InputError` for bad settings.

    Source: derived here.
    """
    selection = _selection(derivation, {})
    used = _derived(derivation).rule if rule is None else rule
    return _predict_update(selection, used, depths, progress, measure, processes, executor, cache)


def predict_scheme(
    scheme: str,
    depths: str | Iterable[object] | None = None,
    *,
    optimizer: str | None = None,
    update: str | None = None,
    progress: Progress | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
    **measure: Unpack[Measure],
) -> UpdatePrediction:
    """Predict a published scheme's ‖ΔF‖/η as :func:`predict_update` predicts a rule's."""
    from deepnet_theory.spec.scheme import measurable
    from deepnet_theory.spec.scheme import scheme as published

    selection, rule = measurable(published(scheme), optimizer, update)
    return _predict_update(selection, rule, depths, progress, measure, processes, executor, cache)


def _predict_update(
    selection: Selection,
    rule: Rule,
    depths: str | Iterable[object] | None,
    progress: Progress | None,
    measure: Measure,
    processes: int | None,
    executor: Executor | None,
    cache: Kept,
) -> UpdatePrediction:
    from deepnet_theory.numeric.predict import predict as run
    from deepnet_theory.numeric.stacks.depths import wanted_depths
    from deepnet_theory.processes import cache_of

    settings = settings_from(measure)
    if settings.updates > 1:
        raise InputError(
            f"updates {settings.updates} was given, and what is predicted is the first update"
        )
    stack = selection.the_stack
    wanted = wanted_depths(depths, stack)
    return run(
        selection,
        rule,
        wanted,
        settings,
        progress,
        processes=processes,
        executor=executor,
        cache=cache_of(cache),
    )


def verify(
    derivation: Derivation | Selection | str,
    depths: str | Iterable[object] | None = None,
    *,
    rule: Rule | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
    **measure: Unpack[Measure],
) -> Verification:
    r"""Measure :math:`\|\Delta F\|/\eta` per token on real stacks and test the exponents.

    .. math:: \frac{\|\Delta F\|}{\eta} = \frac1{\eta T} \sum_{t=1}^{T}
              \Bigl(\sum_{i=1}^{d} (F_{ti}(\theta + \Delta\theta) - F_{ti}(\theta))^2\Bigr)^{1/2}

    after one step on the batch at hand; F is the stack's output before the head, of shape
    (tokens T, width d).

    ``depths`` is a list, or a text such as ``"8,16,32"``; ``measure`` are the fields of
    :class:`~deepnet_theory.numeric.stacks.settings.Settings` (``width``, ``seeds``, ``data`` …).
    ``rule`` replaces the derived rule; ``watch`` receives each depth's point as it is
    measured; ``processes`` share the work (None: one a core, where the work is long), or any
    ``executor`` of ``concurrent.futures`` does it, and the result is the same. ``cache`` is a
    folder where finished work is kept and found again, True for the user's own. Raises
    :class:`InputError` for bad settings.

    Source: the model update of DeepNet, arXiv 2203.00555, §4.1, per unit of the learning rate.
    """
    from deepnet_theory.numeric.stacks.depths import wanted_depths
    from deepnet_theory.numeric.verify import verify as run
    from deepnet_theory.processes import cache_of

    derivation = _derived(derivation)
    selection = derivation.selection
    stack = selection.the_stack
    settings = settings_from(measure)
    wanted = wanted_depths(depths, stack)
    return run(
        selection,
        derivation.rule if rule is None else rule,
        predict(derivation, rule, settings.step),
        wanted,
        settings,
        progress=progress,
        watch=watch,
        processes=processes,
        executor=executor,
        cache=cache_of(cache),
        shares=True,
    )


def verify_scheme(
    scheme: str,
    depths: str | Iterable[object] | None = None,
    *,
    optimizer: str | None = None,
    update: str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
    **measure: Unpack[Measure],
) -> Verification:
    """Measure a published scheme as :func:`verify` measures a rule, against its judged exponent.

    The rivals are the rules that the engine derives for the same placement. Raises
    :class:`Refusal` where the scheme has no law, or needs a stack that cannot be built.
    """
    from deepnet_theory.numeric.stacks.depths import wanted_depths
    from deepnet_theory.numeric.verify import verify as run
    from deepnet_theory.processes import cache_of
    from deepnet_theory.spec.scheme import measurable
    from deepnet_theory.spec.scheme import scheme as published
    from deepnet_theory.symbolic.schemes.judgement import predictions

    settings = settings_from(measure)
    if settings.step != "matrices":
        raise InputError(
            f"step {settings.step!r} was given with the scheme {scheme!r}, whose exponent is that "
            "of its matrices; valid is 'matrices'"
        )
    chosen = published(scheme)
    selection, rule = measurable(chosen, optimizer, update)
    stack = selection.the_stack
    return run(
        selection,
        rule,
        predictions(chosen, selection),
        wanted_depths(depths, stack),
        settings,
        progress=progress,
        watch=watch,
        processes=processes,
        executor=executor,
        cache=cache_of(cache),
        shares=True,
    )


TRANSFER: Measure = {"batch": 8, "seeds": 4}  # what training takes where it is not given


def transfer(
    selection: Selection | Derivation | str,
    depths: str | Iterable[object] | None = None,
    rates: str | Iterable[float] = (),
    closures: Iterable[str] | None = None,
    *,
    rule: Rule | None = None,
    steps: int = 100,
    text: str | Path | None = None,
    outer: str = "stepped",
    progress: Progress | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
    **measure: Unpack[Measure],
) -> Transfer:
    r"""Train at every depth with every learning rate, and say whether the best one transfers.

    .. math:: \eta^*(N) \propto N^{c}, \qquad \text{it transfers where the interval of } c
              \text{ over seeds lies inside } \pm\tfrac1{16}

    The loss is the held-out one after ``steps`` steps of the selection's optimizer on windows of
    ``text``, next byte. Every kind of parameter is stepped at its derived multiplier; embedding
    and head are too, unless ``outer`` is "held", so that the stack alone decides.
    ``transfer("adam", [8, 32], "1e-4:1e-1", ["complete", "symmetric"])`` makes one curve a depth
    and closure; without ``closures`` of ``complete`` and the one that :func:`derive` shows.
    ``rule`` stands beside them as "own".
    ``measure`` are the fields of :class:`~deepnet_theory.numeric.stacks.settings.Settings`.
    Raises :class:`InputError` for what cannot be trained and :class:`Refusal` where a closure
    gives no rule, or the optimizer is known by its first step alone.
    """
    from deepnet_theory.numeric.running.record import rule_to_dict
    from deepnet_theory.numeric.stacks.case import VOCAB
    from deepnet_theory.numeric.stacks.depths import depth_key, wanted_depths
    from deepnet_theory.processes import cache_of
    from deepnet_theory.spec.closures.complete import COMPLETE
    from deepnet_theory.symbolic.rule.problem import Problem
    from deepnet_theory.training.runs import causal
    from deepnet_theory.training.transfer import parse_rates
    from deepnet_theory.training.transfer import transfer as run
    from deepnet_theory.training.transfer_record import Candidate, Course

    selection = _selection(selection, {})
    stack = selection.the_stack
    if len(stack.parts) > 1:
        raise InputError(
            f"transfer trains stacks of one part, and {selection.stack!r} has two; valid are: "
            "encoder, decoder"
        )
    for name in ("draws", "updates", "eta"):
        if name in measure:
            raise InputError(f"{name} was given, which is for verify; leave it out of transfer")
    settings = settings_from({**TRANSFER, **measure})
    wanted = wanted_depths(depths, stack)
    grid = parse_rates(rates if isinstance(rates, str) else list(rates))
    course = Course(
        selection.the_optimizer, settings, steps, None if text is None else str(text), outer
    )
    names = dict.fromkeys(closures or [COMPLETE.name, Problem(selection).closure.name])
    derived: dict[str, tuple[Derivation, Rule | None]] = {
        name: (derive(replace(selection, closure=name)), None) for name in names
    }
    if rule is not None:
        derived["own"] = (derive(selection), rule)
    sizes: Sizes = {
        "width": settings.width, "heads": settings.heads, "ffn_ratio": settings.ffn_ratio,
        "vocab": VOCAB, "activation": settings.activation,
    }  # fmt: skip
    candidates = [
        Candidate(
            closure=name,
            rule=rule_to_dict(own or derivation.rule),
            rho=_relative_update(own or derivation.rule),
            failing=None if own else _failing_exponent(derivation),
            constants={
                depth_key(depth): causal(
                    _constants(derivation, next(iter(depth.values())), own, "forward", sizes)
                )
                for depth in wanted
            },
        )
        for name, (derivation, own) in derived.items()
    ]
    return run(
        selection,
        candidates,
        wanted,
        grid,
        course,
        progress=progress,
        processes=processes,
        executor=executor,
        cache=cache_of(cache),
    )


def _failing_exponent(derivation: Derivation) -> float:
    """The exponent in depth that is derived of the failing rate, of the kind that falls most."""
    from deepnet_theory.symbolic.algebra.monomial import exponent_in
    from deepnet_theory.symbolic.algebra.symbols import DEPTHS

    depth = DEPTHS[derivation.selection.the_stack.depths[0]]
    found = [c.value for c in derivation.consequences if c.name == "failing-rate"]
    return min(float(exponent_in(value, depth)) for value in found)


def _relative_update(rule: Rule) -> str:
    """ρ of the scaled matrices in units of η, for each kind of sublayer where they differ."""
    found = {entry.sublayer: entry.rho for entry in rule.entries}
    if len({*found.values()}) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{sublayer} {rho}" for sublayer, rho in found.items())


RIVAL_SEEDS, RIVAL_DRAWS = 4, 2  # enough to tell slopes apart by a quarter; a rival is no verdict


def rival_rules(derivation: Derivation | Selection | str) -> tuple[Rule, ...]:
    """What the theory gives SGD, Adam and LAMB on the same network, besides the derived rule.

    Rules that agree are one, under both names; one that agrees with the derived rule is left out.
    """
    from deepnet_theory.symbolic.implications.exponents import rival_rules as solve

    derivation = _derived(derivation)
    found: dict[object, Rule] = {}
    for name, rule in solve(derivation.selection).items():
        key = (rule.entries, rule.eta)
        shared = found.get(key)
        found[key] = replace(rule, name=f"{shared.name}, {name}" if shared else name)
    own = derivation.rule
    return tuple(r for key, r in found.items() if key != (own.entries, own.eta))


def verify_rivals(
    derivation: Derivation | Selection | str,
    depths: str | Iterable[object] | None = None,
    *,
    progress: Progress | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
    **measure: Unpack[Measure],
) -> tuple[Verification, ...]:
    """Measure the rivals' rules, stepped by the derivation's own optimizer, to draw beside its own.

    Each is a :func:`verify` of another rule, with at most four seeds of two draws, of the whole
    output alone and without the premises, which are the derivation's own. Raises what ``verify``
    raises.
    """
    from deepnet_theory.numeric.stacks.depths import wanted_depths
    from deepnet_theory.numeric.verify import verify as run
    from deepnet_theory.processes import cache_of

    derivation = _derived(derivation)
    settings = settings_from(measure)
    fewer = replace(
        settings,
        seeds=min(settings.seeds, RIVAL_SEEDS),
        draws=min(settings.draws, RIVAL_DRAWS),
    )
    selection = derivation.selection
    stack = selection.the_stack
    wanted = list(wanted_depths(depths, stack))
    rules = rival_rules(derivation)
    found = []
    for index, rule in enumerate(rules):
        given = predict(derivation, rule, settings.step)
        whole = tuple(e for e in given.exponents if e.share == "all")
        predictions = replace(given, exponents=whole, assumptions=())
        stage = _stage(progress, index / len(rules), 1 / len(rules), f"rule of {rule.name}, ")
        found.append(
            run(
                selection,
                rule,
                predictions,
                wanted,
                fewer,
                progress=stage,
                processes=processes,
                executor=executor,
                cache=cache_of(cache),
            )
        )
        if found[-1].stopped:
            break
    return tuple(found)


def _stage(
    progress: Progress | None, start: float, length: float, prefix: str = ""
) -> Progress | None:
    """Progress of one stage, told as a share of the whole."""
    if progress is None:
        return None
    return lambda done, total, what: progress(start + length * done / total, 1.0, prefix + what)


def settings_from(measure: Measure) -> Settings:
    """The laboratory's settings; raises :class:`InputError` for a name it does not know."""
    from deepnet_theory.numeric.stacks.settings import Settings

    return _record(Settings, "a measurement", measure)


def export(
    derivation: Derivation | Selection | str,
    depth: DepthLike,
    *,
    rule: Rule | None = None,
    form: str = "forward",
    **architecture: Unpack[Sizes],
) -> Constants:
    """The constants of one model to train: a rule's values at a depth, and where they came from.

    A derivation or selection that names no closure is exported with ``complete``, under which
    one learning rate serves every depth, where there is such a rule:
    ``export("adam", depth=200)`` is not the published rule that ``derive("adam")`` shows first,
    and ``export(derive("adam", closure="symmetric"), depth=200)`` is. ``rule`` replaces the
    derived one; its learning-rate multipliers are then 1, because none were derived for it.
    ``architecture`` are the fields of :class:`~deepnet_theory.spec.constants.Architecture`
    (``width``, ``heads``, ``ffn_ratio``, ``vocab`` …).

    With ``form`` "weights" α goes into the last matrix of each branch, its initial size and
    multipliers, and the model's forward pass is one without α; "forward" leaves it in the residual
    sum. Warns (:class:`~deepnet_theory.spec.errors.UnstableWarning`) of a relative update ρ that
    grows with the depth. Raises :class:`InputError` for a depth that is none, or sizes that do not
    fit each other, and :class:`Refusal` where no matrix can carry α, or where the stream
    explodes.

    Source: the rule's own; its formulas go with the numbers, under ``origin``.
    """
    derivation = _derived(derivation)
    if rule is None:
        from deepnet_theory.symbolic.derive import for_training

        wanted = for_training(derivation.selection)
        derivation = derivation if wanted == derivation.selection else derive(wanted)
    constants = _constants(derivation, depth, rule, form, architecture)
    constants.warn()
    return constants


def _constants(
    derivation: Derivation, depth: DepthLike, rule: Rule | None, form: str, sizes: Sizes
) -> Constants:
    """The constants of the rule of a derivation, or of one's own in its place."""
    from deepnet_theory.symbolic.implications.exponents import unstable

    selection = derivation.selection
    at = parse_depth(depth, selection.the_stack)
    own = derivation.rule if rule is None else rule
    built, used = selection, own
    parameters = derivation.parameters if rule is None else ()
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    if form == "weights":
        from deepnet_theory.symbolic.implications.equivalence import powers
        from deepnet_theory.symbolic.implications.weights_form import in_weights

        moved = (powers(selection.the_optimizer, at_zero) for at_zero in (False, True))
        built, used, parameters = in_weights(selection, own, parameters, *moved)
    return Constants.of(
        built,
        used,
        at,
        _record(Architecture, "an architecture", sizes),
        parameters=parameters,
        form=form,
        warning=derivation.warning if rule is None else unstable(selection, rule),
        origin={
            "package": f"deepnet-theory {__version__}",
            "select": selection.to_dict(),
            "rule": used.name,
            "meaning": used.meaning,
            "formulas": [entry.to_dict() for entry in own.entries],
            "eta": used.eta,
            **({"in_depth": derivation.in_depth} if rule is None else {}),
            "depth": at,
            "verdict": derivation.verdict.value if rule is None else "ASSUMED",
        },
    )


def audit(
    model: nn.Module | Made,
    inputs: object = None,
    *,
    optimizer: str | Optimizer | None = None,
    constants: Constants | str | Path | None = None,
    roles: Mapping[str, str] | None = None,
    name: str = "",
) -> Audit:
    """Whether somebody's model follows a rule, and where not, by one recorded forward pass.

    It is held against ``constants`` where they are given; else against every closure's rule of the
    ``optimizer`` (its name, or a torch optimizer, whose groups are then looked at too: learning
    rates, and by constants ε and weight decay of every kind of parameter), or of each class of
    optimizers, and against the published schemes. ``inputs`` are a tensor, a
    tuple or a mapping; ``roles`` say what was not understood, by patterns of parameter names:
    ``{"value": "*.v_proj.weight"}``. Raises :class:`InputError` for a model that cannot be read.
    """
    from deepnet_theory.models.auditing.judging import judge, of_constants
    from deepnet_theory.models.auditing.optimizer import name_and_groups
    from deepnet_theory.models.reading import read
    from deepnet_theory.report.of_scheme import standing
    from deepnet_theory.spec.optimizer import optimizer as named
    from deepnet_theory.spec.scheme import schemes
    from deepnet_theory.symbolic.schemes.judgement import Row
    from deepnet_theory.symbolic.schemes.trial import trials
    from deepnet_theory.symbolic.schemes.wanted import wanted

    under, groups = None, dict[str, dict[str, float]]()
    if isinstance(optimizer, str):
        under = named(optimizer).name
    elif optimizer is not None:
        under, groups = name_and_groups(optimizer, model)
    reading = read(model, inputs, roles)
    why_not = ""
    try:
        if constants is not None:
            rules = [of_constants(reading, constants)]
        else:
            rules = wanted(reading, under)
    except Refusal as refusal:
        rules, why_not = [], str(refusal)
    found = judge(reading, rules, name or type(model).__name__, under, groups, why_not)
    if found.follows in schemes() and under is not None:  # to follow one is not to be balanced
        row = Row((under,), trials(schemes()[found.follows], named(under)))
        judged = standing(row)
        found = replace(found, remarks=(*found.remarks, f"under {under}: {judged[:-1]}"))
    return found


OWN_SHARE = 0.75  # of the work of a report with rivals, for the progress


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page, and the results that it shows."""

    html: str
    derivation: Derivation
    verification: Verification
    constants: tuple[Constants, ...]
    rivals: tuple[Verification, ...] = ()

    @property
    def stopped(self) -> str:
        """What ended the measuring before its end, in words."""
        return next((v.stopped for v in (self.verification, *self.rivals) if v.stopped), "")

    @property
    def exit_code(self) -> int:
        """The verdict's, or 130 after an interruption."""
        return exit_code_after(self.stopped, self.verification.exit_code)

    def save(self, path: str | Path) -> None:
        """Write the page by atomic replacement."""
        write_text(Path(path), self.html)


def make_report(
    derivation: Derivation | Selection | str,
    depths: str | Iterable[object] | None = None,
    *,
    depth: DepthLike | list[DepthLike] | None = None,
    command: str = "",
    rivals: bool = True,
    progress: Progress | None = None,
    watch: Watch | None = None,
    processes: int | None = 1,
    executor: Executor | None = None,
    cache: Kept = None,
    **measure: Unpack[Measure],
) -> Report:
    """Derive → verify → export in one HTML page, which needs no network.

    ``depth`` is the depth, or a list of several, at which constants are printed; by default
    the deepest one measured. ``command`` is shown as the way to make the page again. The
    ``rivals``, other optimizers' rules on the same network, are measured beside the rule with
    fewer draws; the verdict is that of the rule alone. ``measure`` and the rest are those of
    :func:`verify`. Raises what ``verify`` and ``export`` raise.
    """
    from deepnet_theory.report import of_report
    from deepnet_theory.report.printing.html import page

    derivation = _derived(derivation)
    stack = derivation.selection.the_stack
    asked = [] if depth is None else depth if isinstance(depth, list) else [depth]
    wanted = [parse_depth(d, stack) for d in asked]  # a bad depth is refused before measuring
    own = OWN_SHARE if rivals else 1.0
    first, second = _stage(progress, 0, own), _stage(progress, own, 1 - own)
    verification = verify(
        derivation,
        depths,
        progress=first,
        watch=watch,
        processes=processes,
        executor=executor,
        cache=cache,
        **measure,
    )
    if not verification.points:
        raise KeyboardInterrupt  # nothing was measured: there is no page to make
    beside: tuple[Verification, ...] = ()
    if rivals and not verification.stopped:  # whoever has interrupted it waits for no more
        beside = verify_rivals(
            derivation,
            depths,
            progress=second,
            processes=processes,
            executor=executor,
            cache=cache,
            **measure,
        )
    wanted = wanted or [dict(verification.points[-1].depth)]
    # what was measured is what the page hands out, whatever else is recommended
    constants = tuple(_constants(derivation, at, None, "forward", {}) for at in wanted)
    told = of_report.document(derivation.at(**wanted[0]), verification, constants, beside, command)
    html = page(told)
    return Report(html, derivation, verification, constants, beside)


T = TypeVar("T")


def _record(kind: type[T], what: str, values: Mapping[str, object]) -> T:
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    unknown = [name for name in values if name not in known]
    if unknown:
        raise InputError(
            f"{what} has no {unknown[0]!r}; valid are: {', '.join(known)}{guess(unknown[0], known)}"
        )
    return kind(**values)
