"""1,000 layers are 2,500 sublayers."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

HALF, DECODER, CORRECTED = (
    "500 encoder and 500 decoder layers",
    "1,000 layers of a decoder-only stack are another number, 2,000",
    "N encoder and M decoder layers are 2N + 3M sublayers",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The residual sublayers of built stacks counted (no weights are drawn)."""
    from paper_checks.shared.verdicts import proved

    counts = {split: _count(*split) for split in ((500, 500), (1000, 0), (9, 1), (1, 9), (3, 7))}
    return (
        proved(HALF, counts[500, 500] == 2500, f"counted {counts[500, 500]}"),
        proved(DECODER, counts[1000, 0] == 2000, f"counted {counts[1000, 0]}"),
        proved(
            CORRECTED,
            all(c == 2 * n + 3 * m for (n, m), c in counts.items()),
            "for each of the built splits",
        ),
    )


def _count(encoder: int, decoder: int) -> int:
    from deepnet_theory.runtime import (
        Architecture,
        Constants,
        PartConstants,
        SublayerConstants,
        build,
    )

    def part(name: str, layers: int, *kinds: str) -> PartConstants:
        return PartConstants(
            name, layers, name == "decoder", tuple(SublayerConstants(k, 1.0, 1.0) for k in kinds)
        )

    parts = (part("encoder", encoder, "attention", "ffn"),)
    if decoder:
        parts = (*parts, part("decoder", decoder, "attention", "cross", "ffn"))
    constants = Constants(
        stack="encoder-decoder" if decoder else "encoder",
        placement="post-ln", norm="layer", parts=parts,
        architecture=Architecture(width=8, heads=1, vocab=8),
    )  # fmt: skip
    return sum(1 for _ in build(constants, device="meta").residuals())


CLAIM = Claim(
    name="deepnet-sublayers",
    source="DeepNet, arXiv 2203.00555, abstract and §6",
    statement="1,000 layers, i.e. 2,500 attention and feed-forward sublayers.",
    conditions="encoder layers of 2, decoder layers of 3 sublayers",
    recorded=(
        Ruling(HALF, Verdict.PROVED),
        Ruling(DECODER, Verdict.PROVED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "2,500 is right for the paper's own 1,000 layers, 500 in the encoder and 500 in "
        "the decoder, whose layers have two and three residual sublayers. A decoder-only "
        "model of 1,000 "
        "layers has 2,000, and other splits have 2N + 3M. Whoever carries the constants "
        "over should count sublayers: 2N, 2M and 3M are what the rules hold."
    ),
    corrected="2N + 3M for N encoder and M decoder layers, 2M for a decoder-only stack.",
    check=check,
    seconds=3.0,
)
