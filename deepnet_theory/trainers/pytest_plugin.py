"""A fixture of pytest, ``follows_rule``: the test fails where a model does not follow a rule.

pytest imports this file in every session: torch, and all that audits, waits for the first audit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from deepnet_theory.definitions.audit import Audit


@pytest.fixture(scope="session")
def follows_rule() -> Callable[..., Audit]:
    """A function that takes what :func:`deepnet_theory.audit` takes, and fails with its findings.

    ``follows_rule(model, inputs, optimizer="adamw")`` returns an audit that is SUPPORTED. A model
    that was not understood fails, too.
    """

    def check(model: Any, inputs: object = None, **compared_with: Any) -> Audit:
        __tracebackhide__ = True
        import deepnet_theory as dt  # as the test that calls this would: no room below has all

        found = dt.audit(model, inputs, **compared_with)
        if found.verdict is not dt.Verdict.SUPPORTED:
            raise AssertionError(f"the model does not follow the rule\n{found}")
        return found

    return check
