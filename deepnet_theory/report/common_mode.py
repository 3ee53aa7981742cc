"""What tokens come to share over steps, as a table and a picture of R."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.document import depth_words, number

if TYPE_CHECKING:
    from deepnet_theory.definitions.measurement import Following, ModelMeasurement
    from deepnet_theory.definitions.training import Run

COMMON = (
    "R: the summed weight, beside the stream, of what the branches add to all tokens alike; what "
    "is a token's own is divided by cosh(R) with a norm on every sum, by sqrt(1 + R**2) without."
)


def over_updates(m: ModelMeasurement) -> tuple[doc.Block, ...]:
    """Loss, R and the tokens' cosine of every depth, and the picture of R."""
    if not m.updates:
        return ()

    def ends(values: Sequence[float], form: str) -> str:
        return f"{number(values[0], form)} → {number(values[-1], form)}"

    table = doc.table(
        "depth | >largest R | >R | >tokens' cosine | >loss",
        (
            (depth_words(u.depth), number(max(u.common_mode), ".2f"), ends(u.common_mode, ".2f"),
             ends(u.token_cosine, ".2f"), ends(u.losses, ".3f"))
            for u in m.updates
            if u.common_mode
        ),
    )  # fmt: skip
    rate = m.measure["eta"]
    at_rate = "its own rate" if rate is None else f"the rate {rate:g}"
    updates = f"{m.measure['updates']} updates of {m.optimizer} at {at_rate}"
    last = max(1, len(m.updates) - 1)
    curves = [(depth_words(u.depth), u, index / last, 0) for index, u in enumerate(m.updates)]
    return (
        doc.Paragraph(f"{updates}, from the first to the last. {COMMON}", aside=True), table,
        common_mode_figure(curves),
    )  # fmt: skip


def common_mode_figure(watched: Sequence[tuple[str, Run | Following, float, int]]) -> doc.Panels:
    """R at the steps where it was taken; each has a name, a shade and a colour."""
    curves = tuple(
        doc.Curve(label, _by_step(one, one.common_mode), shade, colour=colour)
        for label, one, shade, colour in watched
    )
    caption = f"The largest R of the seeds, at the steps where it was taken. {COMMON}"
    return doc.Panels(
        (("R, the largest of the seeds", curves),), "step", "R", None, caption=caption,
        logarithmic=True,
    )  # fmt: skip


def _by_step(one: Run | Following, values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    # a logarithm has no place 0
    return tuple((step + 1.0, v) for step, v in zip(one.common_mode_steps, values, strict=True))
