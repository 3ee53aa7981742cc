"""What a rule is trained beside: the same sizes with the constants of a plain model, or GPT-2's."""

from __future__ import annotations

from dataclasses import replace

from deepnet_theory.spec.constants import Constants, SublayerConstants
from deepnet_theory.spec.scheme import scheme as published
from deepnet_theory.spec.sublayer import sublayer


def plain(constants: Constants, placement: str) -> Constants:
    """The rival: the same sizes, α = β = 1 and no learning-rate multipliers."""
    return replace(
        constants,
        placement=placement,
        eta=1.0,
        form="forward",
        warning="",
        condition="",
        parts=tuple(
            replace(
                p,
                multipliers={},
                sublayers=tuple(SublayerConstants(s.kind, 1.0, 1.0) for s in p.sublayers),
            )
            for p in constants.parts
        ),
    )


def gpt_2(constants: Constants) -> Constants:
    """The rival of GPT-2: plain pre-LN whose branches' last matrices have the scheme's gain.

    Its N counts layers of two residual sublayers; others are counted as so many halves.
    """
    scheme = published("gpt-2")
    (part,) = scheme.parts
    (gain,) = set(part.gains.values())
    bare = plain(constants, "pre-ln")
    parts = []
    for p in bare.parts:
        value = scheme.value(gain, N=p.layers * len(p.sublayers) / 2)
        own = (replace(s, gains={sublayer(s.kind).last_map[0]: value}) for s in p.sublayers)
        parts.append(replace(p, sublayers=tuple(own)))
    return replace(bare, parts=tuple(parts))


def causal(constants: Constants) -> Constants:
    """The same constants with a causal last part, so that the next byte is not in sight.

    What they warn of is said once, where they are read, and not at every build.
    """
    *before, last = constants.parts
    return replace(constants, parts=(*before, replace(last, causal=True)), warning="")
