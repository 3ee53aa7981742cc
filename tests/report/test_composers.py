"""Every result that is shown has one composer."""

from __future__ import annotations

from importlib import import_module

import pytest

from deepnet_theory.report.composers import COMPOSERS
from deepnet_theory.sizes import consequences, judgement, parametrisations
from deepnet_theory.spec.results import audit, prediction, result, training, verification
from deepnet_theory.symbolic import derivation, width

ROOMS = (
    audit,
    consequences,
    derivation,
    judgement,
    parametrisations,
    prediction,
    training,
    verification,
    width,
)


def test_every_result_has_a_composer_and_every_composer_a_result() -> None:
    found = {
        name
        for room in ROOMS
        for name, kind in vars(room).items()
        if isinstance(kind, type)
        and issubclass(kind, result.Result)
        and kind.__module__ == room.__name__
    }
    assert found == set(COMPOSERS)


@pytest.mark.parametrize(("module", "function"), COMPOSERS.values())
def test_a_composer_makes_a_document(module: str, function: str) -> None:
    assert callable(getattr(import_module(f"deepnet_theory.report.{module}"), function))
