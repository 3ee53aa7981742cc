"""An error planted in the source of a module, for the time of one test."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator

import pytest

from deepnet_theory.symbolic.routes import by_method


@pytest.fixture
def fresh_routes() -> Iterator[None]:
    """No route is kept from before an error was planted, and none after."""
    by_method._route.cache_clear()
    yield
    by_method._route.cache_clear()


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch, fresh_routes: None) -> Callable[[str, str, str], None]:
    """``plant(module, right, wrong)``: whoever uses the module's names gets the wrong ones.

    The text ``right`` must stand exactly once in the module's source.
    """

    def planted(module: str, right: str, wrong: str) -> None:
        true = importlib.import_module(f"deepnet_theory.symbolic.{module}")
        source = inspect.getsource(true)
        assert source.count(right) == 1, f"{right!r} stands {source.count(right)} times"
        false = dict(vars(true))
        exec(compile(source.replace(right, wrong), f"{module}, planted", "exec"), false)
        users = [m for name, m in sys.modules.items() if name.startswith("deepnet_theory.symbolic")]
        for name, value in vars(true).copy().items():
            if false[name] is value or name.startswith("__"):
                continue
            for user in users:
                if vars(user).get(name) is value:
                    monkeypatch.setattr(user, name, false[name])

    return planted
