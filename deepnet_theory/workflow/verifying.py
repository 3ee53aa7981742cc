"""Measured on real stacks: a rule, a published scheme, and a rule's rivals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.rule import PLAIN, Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.workflow.deriving import own_rule
from deepnet_theory.workflow.given import derived, settings_and_work, staged
from deepnet_theory.workflow.predicting import predict

if TYPE_CHECKING:
    from deepnet_theory.numeric.verify import Watch
    from deepnet_theory.spec.results.verification import Verification
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.workflow.given import Given

RIVAL_SEEDS, RIVAL_DRAWS = 4, 2  # enough to tell slopes apart by a quarter; a rival is no verdict


def verify(
    derivation: Derivation | Selection | str | None = None,
    depths: str | Iterable[object] | None = None,
    *,
    rule: Rule | None = None,
    watch: Watch | None = None,
    **given: Unpack[Given],
) -> Verification:
    r"""Measure :math:`\|\Delta F\|/\eta` per token on real stacks and test the exponents.

    .. math:: \frac{\|\Delta F\|}{\eta} = \frac1{\eta T} \sum_{t=1}^{T}
              \Bigl(\sum_{i=1}^{d} (F_{ti}(\theta + \Delta\theta) - F_{ti}(\theta))^2\Bigr)^{1/2}

    after one step on the batch at hand; F is the stack's output before the head, of shape
    (tokens T, width d).

    ``depths`` is a list, or a text such as ``"8,16,32"``; ``rule`` replaces the derived rule, and
    ``watch`` receives each depth's point as it is measured. ``given`` are the fields of
    :class:`~deepnet_theory.numeric.settings.Settings` (``width``, ``seeds``, ``data`` …) and
    of :class:`~deepnet_theory.processes.Work`: ``processes`` share the work (None: one a core,
    where the work is long), or any ``executor`` of ``concurrent.futures`` does it, and the result
    is the same; ``cache`` is a folder where finished work is kept and found again, True for the
    user's own; ``progress`` is told of the work done. Raises :class:`InputError` for bad settings.

    Source: the model update of DeepNet, arXiv 2203.00555, §4.1, per unit of the learning rate.
    """
    from deepnet_theory.numeric.depths import wanted_depths
    from deepnet_theory.numeric.verify import verify as run

    derivation = derived(derivation)
    selection = derivation.selection
    settings, work = settings_and_work(given)
    found = run(
        selection,
        derivation.rule if rule is None else rule,
        predict(derivation, rule, settings.step),
        wanted_depths(depths, selection.the_stack),
        settings,
        watch=watch,
        shares=True,
        **work,
    )
    rows = () if rule is not None else derivation.rows
    return replace(found, rows={row.named: row.told() for row in rows})


def verify_scheme(
    scheme: str,
    depths: str | Iterable[object] | None = None,
    *,
    optimizer: str | None = None,
    update: str | None = None,
    watch: Watch | None = None,
    **given: Unpack[Given],
) -> Verification:
    """Measure a published scheme as :func:`verify` measures a rule, against its judged exponent.

    The rivals are the rules that the engine derives for the same placement. Raises
    :class:`Refusal` where the scheme has no law, or needs a stack that cannot be built.
    """
    from deepnet_theory.numeric.depths import wanted_depths
    from deepnet_theory.numeric.verify import verify as run
    from deepnet_theory.sizes.judgement import predictions
    from deepnet_theory.spec.scheme import measurable
    from deepnet_theory.spec.scheme import scheme as published

    settings, work = settings_and_work(given)
    if settings.step != "matrices":
        raise InputError(
            f"step {settings.step!r} was given with the scheme {scheme!r}, whose exponent is that "
            "of its matrices; valid is 'matrices'"
        )
    chosen = published(scheme)
    selection, rule = measurable(chosen, optimizer, update)
    return run(
        selection,
        rule,
        predictions(chosen, selection),
        wanted_depths(depths, selection.the_stack),
        settings,
        watch=watch,
        shares=True,
        scheme=chosen,
        **work,
    )


def rival_rules(derivation: Derivation | Selection | str) -> tuple[Rule, ...]:
    """What the theory gives SGD, Adam and LAMB on the same network, and the plain α = β = 1.

    Rules that agree are one, under both names; one that agrees with the derived rule is left out.
    """
    from deepnet_theory.sizes.exponents import rival_rules as solve

    derivation = derived(derivation)
    unscaled = own_rule(derivation, 1, 1)
    found: dict[object, Rule] = {}
    for name, rule in (solve(derivation.selection) | {PLAIN: unscaled}).items():
        key = (rule.entries, rule.eta)
        shared = found.get(key)
        found[key] = replace(rule, name=f"{shared.name}, {name}" if shared else name)
    own = derivation.rule
    return tuple(r for key, r in found.items() if key != (own.entries, own.eta))


def verify_rivals(
    derivation: Derivation | Selection | str,
    depths: str | Iterable[object] | None = None,
    **given: Unpack[Given],
) -> tuple[Verification, ...]:
    """Measure the rivals' rules, stepped by the derivation's own optimizer, to draw beside its own.

    Each is a :func:`verify` of another rule, with at most four of the same seeds and two draws,
    of the whole output alone and without the premises, which are the derivation's own. No exponent
    is predicted where the stack is far from the identity, as a deep plain one is. Raises what
    ``verify`` raises.
    """
    from deepnet_theory.numeric.depths import wanted_depths
    from deepnet_theory.numeric.verify import verify as run

    derivation = derived(derivation)
    settings, _ = settings_and_work(given)
    fewer = replace(
        settings,
        seeds=min(settings.seeds, RIVAL_SEEDS),
        draws=min(settings.draws, RIVAL_DRAWS),
    )
    selection = derivation.selection
    wanted = list(wanted_depths(depths, selection.the_stack))
    rules = rival_rules(derivation)
    found = []
    for index, rule in enumerate(rules):
        predicted = predict(derivation, rule, settings.step)
        whole = tuple(
            replace(e, exponent=None) if predicted.warnings else e
            for e in predicted.exponents
            if e.share == "all"
        )
        predicted = replace(predicted, exponents=whole, assumptions=())
        stage = staged(given, index / len(rules), 1 / len(rules), f"rule of {rule.name}, ")
        _, work = settings_and_work(stage)
        found.append(run(selection, rule, predicted, wanted, fewer, **work))
        if found[-1].stopped:
            break
    return tuple(found)
