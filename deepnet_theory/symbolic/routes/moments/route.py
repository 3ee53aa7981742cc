"""The moment route from a selection to the increment and the weight of every sublayer."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.laws.optimizer import degrees, homogeneity_step
from deepnet_theory.symbolic.laws.placement import P, PlacementLaw, placement_law
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.moments.amplification import Half, Parts
from deepnet_theory.symbolic.routes.moments.cross_attention import Crossing, cross_steps
from deepnet_theory.symbolic.routes.moments.gradient_step import gradient_step_steps
from deepnet_theory.symbolic.routes.moments.increment import increment, weight
from deepnet_theory.symbolic.routes.moments.norm import norm_size_steps, norm_steps
from deepnet_theory.symbolic.routes.moments.recursion import COEFFICIENT, recursion_steps
from deepnet_theory.symbolic.routes.moments.setting import (
    CAKE,
    CAKE_ATTENTION,
    GaussianBranch,
    alpha,
    d,
    given,
    norm_x,
    source_convention,
)
from deepnet_theory.symbolic.routes.moments.stream import Stream, norm_s, stream_of, stream_steps
from deepnet_theory.symbolic.routes.moments.sublayer import sublayer_steps
from deepnet_theory.symbolic.routes.route import Proved, Route, encoder_and_decoder, supporting

BRANCHES = {
    "ffn": GaussianBranch("ffn", True, source_convention(True), CAKE),
    "attention": GaussianBranch("attention", False, source_convention(False), CAKE_ATTENTION),
}
READS_MEMORY = {"cross": "attention"}  # the same two matrices, behind another input

# the steps of A that each way of counting it rests on
AMPLIFICATION = {
    "published": ("amplification-aligned",),
    "worst-case": ("amplification-aligned", "cross-gradient-response"),
    "independent": ("amplification-independent", "cross-gradient-response"),
}


def branches(selection: Selection) -> tuple[GaussianBranch, ...]:
    """The kinds of sublayers of the selection that the route has a law for.

    Raises :class:`Refusal` for every other placement or sublayer, naming the missing law.
    """
    if not _normalised(selection):
        stream_of(selection.the_placement)
    names = _names(selection)
    kinds = {READS_MEMORY.get(name, name) for name in names}
    missing = [name for name in names if READS_MEMORY.get(name, name) not in BRANCHES]
    if missing:
        raise Refusal(
            f"the moment route has no second moment of the branch {missing[0]!r}: it is no product "
            "of two matrices around a mask, so that a change of its input does not pass it by the "
            f"factor of its size (it has the moments of {', '.join((*BRANCHES, *READS_MEMORY))}); "
            "use the method probe or lemma"
        )
    # the feed-forward sublayer first, as in the source
    return tuple(branch for name, branch in BRANCHES.items() if name in kinds)


def moment_route(selection: Selection) -> Route:
    """The steps that the increments and weights of the selection's sublayers rest on.

    Raises :class:`Refusal` where a law is missing.
    """
    kinds, law = branches(selection), placement_law(selection.the_placement)
    stream = None if _normalised(selection) else stream_of(selection.the_placement)
    optimizer = selection.the_optimizer
    of: dict[str, Step] = {}

    def add(*steps: Step) -> None:
        of.update((step.name, step) for step in steps)

    aligned = [gradient_step_steps(branch) for branch in kinds]
    for branch, pair in zip(kinds, aligned, strict=True):
        add(*sublayer_steps(branch), *pair)
    add(*norm_steps(selection.the_norm.centred))
    if stream is None:
        add(*norm_size_steps(kinds, of))
        add(*recursion_steps(kinds, of))
    else:
        add(*stream_steps(stream, kinds, of))
    add(homogeneity_step(optimizer, degrees(optimizer)))
    names, symbols = _names(selection), given()
    sums: tuple[str, ...] = ("telescoping",)
    coefficients = dict.fromkeys(names, of[COEFFICIENT])
    weights = dict.fromkeys(names, _weight(kinds, stream, of, law))
    if len(selection.the_stack.parts) == 2:
        encoder, decoder = map(Half, encoder_and_decoder(selection.the_stack))
        crossing = Crossing(BRANCHES["attention"], stream)
        add(*cross_steps(crossing))
        for name in READS_MEMORY:
            coefficients[name] = of["cross-coefficient"]
            weights[name] = _weight_of_crossing(crossing, of, law)
        add(*Parts(encoder, decoder, crossing.weight, stream is None, coefficients).steps())
        sums = ("telescoping", *AMPLIFICATION[selection.amplification], "two-part-bound")
        symbols = (*symbols, *encoder.symbols, *decoder.symbols)
    made = {
        step.name: increment(
            step.name.replace("coefficient", "increment"),
            step,
            of["degrees"],
            tuple(size.name for _, size in aligned),
            optimizer,
            law,
        )
        for step in dict.fromkeys(coefficients.values())
    }
    ends = (*weights.values(), *made.values())
    add(*(end.step for end in ends))
    return Route(
        steps=supporting(of.values(), (*sums, *(end.name for end in ends))),
        given=symbols,
        increments={name: made[step.name] for name, step in coefficients.items()},
        weights=weights,
        sums=sums,
    )


def _weight(
    kinds: tuple[GaussianBranch, ...],
    stream: Stream | None,
    of: Mapping[str, Step],
    law: PlacementLaw,
) -> Proved:
    """r of the sublayers that read the stream, whose kinds have one mean square."""
    if stream is not None:
        grown = of["stream-growth"]
        return weight("moment-weight", ((grown.rhs - norm_s**2) / d,), (grown.name,), law)
    sizes = [of[f"{branch.name}-norm"] for branch in kinds]
    ratios = tuple(size.rhs / (alpha * norm_x) ** 2 - 1 for size in sizes)
    return weight("moment-weight", ratios, tuple(size.name for size in sizes), law)


def _weight_of_crossing(crossing: Crossing, of: Mapping[str, Step], law: PlacementLaw) -> Proved:
    size = of["cross-size"]
    path = crossing.path**2 * norm_s**2
    ratio = ((size.rhs - path) / path).xreplace({**crossing.values, norm_s: sp.sqrt(d)})
    return weight("cross-weight", (ratio,), (size.name,), law)


def _names(selection: Selection) -> tuple[str, ...]:
    """The distinct sublayers of the stack."""
    parts = selection.the_stack.parts
    return tuple(dict.fromkeys(sublayer.name for part in parts for sublayer in part.layer))


def _normalised(selection: Selection) -> bool:
    """Whether the placement is the source's: path and branch summed, then normalised."""
    law = placement_law(selection.the_placement)
    return law.normalised and law.weight == P / alpha
