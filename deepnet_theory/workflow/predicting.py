"""What a rule, or a scheme, will do: exponents from its laws, sizes from single sublayers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.workflow.given import answered, derived, selection_of, settings_and_work

if TYPE_CHECKING:
    from deepnet_theory.spec.results.prediction import Predictions, UpdatePrediction
    from deepnet_theory.spec.scheme import Scheme
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.workflow.given import Given


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
    from deepnet_theory.sizes.exponents import predictions

    found = predictions(derivation.selection, rule or derivation.rule, step)
    return replace(found, assumptions=derivation.predictions.assumptions)


def predict_update(
    derivation: Derivation | Selection | str | None = None,
    depths: str | Iterable[object] | None = None,
    *,
    rule: Rule | None = None,
    **given: Unpack[Given],
) -> UpdatePrediction:
    r"""Predict :math:`\|\Delta F\|/\eta` per token in absolute size, at any depth.

    .. math:: E\|\Delta F\|^2 = L\,E\|V\|^2 + L(L-1)\,E\langle V, V'\rangle

    with V, V' what two of the L layers add. They are sampled with the data, embeddings and heads of
    :func:`verify`; no stack is built, and 10,000 layers cost what 8 do. ``depths``, ``rule``
    and ``given`` are those of :func:`verify`. Raises :class:`InputError` for bad settings.

    Source: derived here.
    """
    selection = selection_of(derivation, {})
    used = answered(derivation).rule if rule is None else rule
    return _predicted(selection, used, depths, given)


def predict_scheme(
    scheme: str,
    depths: str | Iterable[object] | None = None,
    *,
    optimizer: str | None = None,
    update: str | None = None,
    **given: Unpack[Given],
) -> UpdatePrediction:
    """Predict a published scheme's ‖ΔF‖/η as :func:`predict_update` predicts a rule's."""
    from deepnet_theory.spec.scheme import measurable
    from deepnet_theory.spec.scheme import scheme as published

    chosen = published(scheme)
    selection, rule = measurable(chosen, optimizer, update)
    return _predicted(selection, rule, depths, given, chosen)


def _predicted(
    selection: Selection,
    rule: Rule,
    depths: str | Iterable[object] | None,
    given: Given,
    scheme: Scheme | None = None,
) -> UpdatePrediction:
    from deepnet_theory.numeric.depths import wanted_depths
    from deepnet_theory.numeric.predict import predict as run

    settings, work = settings_and_work(given)
    if settings.updates > 1:
        raise InputError(
            f"updates {settings.updates} was given, and what is predicted is the first update"
        )
    wanted = wanted_depths(depths, selection.the_stack)
    return run(selection, rule, wanted, settings, scheme=scheme, **work)
