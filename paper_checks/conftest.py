"""``pytest paper_checks``: one test a claim; ``--full`` runs the wide conditions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepnet_theory.cli.claims import importable, location
from deepnet_theory.processes.jobs import ONE_THREAD

importable(location())
from paper_checks.shared.check import (  # noqa: E402
    NOT_CLAIMS,
    SHARED,
    Checked,
    claim,
    one_thread,
    run,
)
from paper_checks.shared.claim import Context  # noqa: E402

os.environ.update(ONE_THREAD)  # before torch is loaded


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="the wide conditions of the claims")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".py" or file_path.name in NOT_CLAIMS:
        return None
    if file_path.parent.name == SHARED or not file_path.is_relative_to(Path(__file__).parent):
        return None
    return ClaimFile.from_parent(parent, path=file_path)  # type: ignore[no-any-return]


class ClaimFile(pytest.File):
    """A claim's file."""

    def collect(self) -> Iterator[pytest.Item]:
        name = self.path.stem.replace("_", "-")
        yield ClaimItem.from_parent(self, name=name)


class ClaimItem(pytest.Item):
    """A claim: it passes where every verdict is as recorded."""

    def runtest(self) -> None:
        full = bool(self.config.getoption("--full"))
        with one_thread():
            result = run(claim(self.name), Context(full=full))
        if not result.as_recorded:
            raise ChangedVerdictError(Checked((result,), full, result.seconds).table(), result)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, ChangedVerdictError):
            return "\n".join(str(a) for a in excinfo.value.args[:1]) + excinfo.value.args[1].error
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


class ChangedVerdictError(Exception):
    """A verdict differs from the recorded one."""
