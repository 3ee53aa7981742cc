"""Results as text: the public JSON that every one of them has, and what all measured ones share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from deepnet_theory.spec.errors import exit_code_after
from deepnet_theory.spec.record import finite, written
from deepnet_theory.spec.verdict import Verdict

if TYPE_CHECKING:
    from deepnet_theory.spec.results.verification import Exponent


class Result:
    """What a command hands back: plain data, whose JSON is its public form.

    Of a dataclass it is the fields by their names, with the name of its ``schema``.
    """

    schema: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        return {"schema": self.schema, **written(self)}

    def to_json(self) -> str:
        """The JSON text; NaN and infinity, which JSON lacks, are written as null."""
        return json.dumps(finite(self.to_dict()), indent=2, ensure_ascii=False, allow_nan=False)


class Measured(Result):
    """A result with a verdict, whole or what there was when the work was ``stopped``, in words."""

    stopped: str
    verdict: Verdict

    @property
    def complete(self) -> bool:
        return not self.stopped

    @property
    def exit_code(self) -> int:
        """The verdict's, or 130 after an interruption."""
        return exit_code_after(self.stopped, self.verdict.exit_code)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        data = {**super().to_dict(), "verdict": self.verdict, "complete": self.complete}
        del data["stopped"]
        return data

    def _repr_html_(self) -> str:
        from deepnet_theory.report.document import composed
        from deepnet_theory.report.html import fragment

        return fragment(composed(self))


class AtSeveralSizes(Measured):
    """What was measured at several depths or widths, with an exponent in each of them."""

    exponents: tuple[Exponent, ...]

    @property
    def whole(self) -> tuple[Exponent, ...]:
        """The exponents of the whole ‖ΔF‖, one a depth that varies."""
        return tuple(e for e in self.exponents if e.share == "all")

    @property
    def constant(self) -> bool:
        """Whether ‖ΔF‖ was shown to be constant in depth: another question than the verdict."""
        return self.complete and bool(self.whole) and all(e.constant for e in self.whole)

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        first = data["exponents"][0] if self.exponents else None
        return {**data, "exponent": first, "constant": self.constant}
