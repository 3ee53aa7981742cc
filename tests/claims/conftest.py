"""What plants an opposite in a claim's own file and judges its parts with it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import unwrap
from types import ModuleType
from typing import Any

import pytest

from deepnet_theory.claims.folder import importable, load, location
from deepnet_theory.spec.verdict import Verdict

Judge = Callable[[str], Verdict]


@pytest.fixture
def shared() -> Callable[[str], ModuleType]:
    """A module that the claims share: other tests read folders of their own, and another one."""
    importable(location())
    return lambda name: import_module(f"paper_checks.shared.{name}")


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Judge]:
    """``plant(claim, name=value, …)`` gives the verdict on the part whose label has the words."""

    def planted(name: str, **values: Any) -> Judge:
        claim = load(location(), name)
        own: dict[str, Any] = unwrap(claim.parts[0].check).__globals__  # type: ignore[attr-defined]
        for key, value in values.items():
            assert key in own
            monkeypatch.setitem(own, key, value)
        from paper_checks.shared.bench import Lab

        lab = Lab()

        def judge(words: str) -> Verdict:
            exact = [p for p in claim.parts if p.about == words]
            (part,) = exact or [p for p in claim.parts if words in p.about]
            return part.check(lab).verdict

        return judge

    return planted


@pytest.fixture
def own() -> Callable[[str], dict[str, Any]]:
    """The module-level names of a claim's own file."""

    def names(claim: str) -> dict[str, Any]:
        check = unwrap(load(location(), claim).parts[0].check)
        found: dict[str, Any] = check.__globals__  # type: ignore[attr-defined]
        return found

    return names
