"""Derive → verify → export in one page."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepnet_theory.cli.deriving import derived, staged, to_train_with
from deepnet_theory.cli.experiments import verify, verify_rivals
from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.files import write_text
from deepnet_theory.definitions.outcome import exit_code_after
from deepnet_theory.definitions.selection import DepthLike, Selection, parse_depth
from deepnet_theory.sizes.exported import constants_of

if TYPE_CHECKING:
    from deepnet_theory.definitions.measurement import Result
    from deepnet_theory.laboratory.verify import Watch
    from deepnet_theory.proof.derivation import Derivation

OWN_SHARE = 0.75  # of the work of a report with rivals, for the progress


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page, and the results that it shows."""

    html: str
    derivation: Derivation
    verification: Result
    constants: tuple[Constants, ...]
    rivals: tuple[Result, ...] = ()

    @property
    def stopped(self) -> str:
        """What ended the measuring before its end, in words."""
        return next((v.stopped for v in (self.verification, *self.rivals) if v.stopped), "")

    @property
    def exit_code(self) -> int:
        return exit_code_after(self.stopped, self.verification.exit_code)

    def save(self, path: str | Path) -> None:
        """Write the page by atomic replacement."""
        write_text(Path(path), self.html)


def make_report(
    derivation: Derivation | Selection | str | None = None,
    depths: str | Iterable[object] | None = None,
    *,
    depth: DepthLike | list[DepthLike] | None = None,
    command: str = "",
    rivals: bool = True,
    watch: Watch | None = None,
    **given: Any,
) -> Report:
    """Derive → verify → export in one HTML page, which needs no network.

    The rule that :func:`derive` shows first is measured; the constants are those to train with, as
    :func:`export` writes them.
    ``depth`` is the depth, or a list of several; constants are printed for each; by default
    the deepest one measured. ``command`` is shown as the way to make the page again. The
    ``rivals``, other optimizers' rules and α = β = 1 on the same network, are measured beside the
    rule with fewer draws; the verdict is that of the rule alone. ``given`` and ``watch`` are
    those of :func:`verify`. Raises what ``verify`` and ``export`` raise.
    """
    from deepnet_theory.report.html import page
    from deepnet_theory.report.one_page import document

    derivation = derived(derivation)
    stack = derivation.selection.the_stack
    asked = [] if depth is None else depth if isinstance(depth, list) else [depth]
    wanted = [parse_depth(d, stack) for d in asked]  # a bad depth is refused before measuring
    share = OWN_SHARE if rivals else 1.0
    verification = verify(derivation, depths, watch=watch, **staged(given, 0, share))
    if not verification.points:
        raise KeyboardInterrupt  # nothing was measured: there is no page to make
    beside: tuple[Result, ...] = ()
    if rivals and not verification.stopped:  # whoever has interrupted it waits for no more
        beside = verify_rivals(derivation, depths, **staged(given, share, 1 - share))
    wanted = wanted or [dict(verification.points[-1].at)]
    trained = to_train_with(derivation)
    constants = tuple(
        constants_of(trained, layers, None, "forward", {}, derivation.rows) for layers in wanted
    )
    there = derivation.at(**wanted[0])
    html = page(document(there, verification, constants, beside, command, made_on()))
    return Report(html, derivation, verification, constants, beside)


def made_on() -> dict[str, str]:
    """When, by what version and on what machine a page is made."""
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"date": now, "deepnet-theory": __version__, "machine": system}
