"""What the rules of the engine and the published schemes ask of a model that was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

from deepnet_theory.definitions.constants import Architecture, Constants
from deepnet_theory.definitions.expression import evaluate
from deepnet_theory.definitions.optimizer import OPTIMIZERS, Optimizer, optimizer
from deepnet_theory.definitions.outcome import DeepNetTheoryError, Refusal
from deepnet_theory.definitions.placement import PLACEMENTS
from deepnet_theory.definitions.reading import UNKNOWN, Reading
from deepnet_theory.definitions.rule import CLOSURES, RuleEntry
from deepnet_theory.definitions.scheme import SCHEMES, WIDTH, Scheme
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.subject import (
    INSIDE,
    Wanted,
    WantedSublayer,
    at,
    norms_of,
    rows_of,
    without_law,
)
from deepnet_theory.definitions.sublayer import MATRICES, Role, sublayer
from deepnet_theory.sizes.exponents import BEST_KNOWN
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.table import table, texts
from deepnet_theory.sizes.update import degree_of, law


def wanted(
    reading: Reading, under: str | None = None, depth: Mapping[str, int] | None = None
) -> list[Wanted]:
    """Every rule that a model may follow: of one optimizer, or of each class of them; and schemes.

    Each at the model's ``depth``, or at another one.
    Schemes come before the rules of the lemma route, DeepNorm among them. Branches that no
    derived rule has a law for are left to the schemes of that form. Raises :class:`Refusal` where
    the stacks that were read are none that the theory speaks of.
    """
    chosen = selection_of(reading, "sgd" if under is None else under)
    names = (under,) if under else _classes()

    def derived(method: str) -> Iterator[Wanted]:
        if not without_law(reading):
            for name in names:
                given = replace(chosen, optimizer=name, method=method)
                yield from _derived(reading, given, depth or depth_of(reading))

    published = _published(reading, under, depth or depth_of(reading))
    if len({s.around for s in reading.sublayers}) == 1:
        return [*derived("probe"), *published, *derived("lemma")]
    if without_law(reading):
        return []
    raise Refusal(f"norms are set in several ways, {reading.said_ways()}: no rule here has them so")


@cache
def _classes() -> tuple[str, ...]:
    """The best-known optimizer of each class, whose first updates are of the same degrees."""
    classes: dict[Monomial, str] = {}
    for name in sorted(OPTIMIZERS, key=lambda name: (name not in BEST_KNOWN, name)):
        classes.setdefault(degree_of(optimizer(name)), name)
    return tuple(classes.values())


def degrees(under: Optimizer) -> tuple[float, float]:
    """(p, q) of the optimizer's first update."""
    return float(law(under).p), float(law(under).q)


def selection_of(reading: Reading, under: str) -> Selection:
    """The placement, stack, layer and norm of a reading as a selection."""
    _require_understood(reading)
    for s in reading.sublayers:
        if s.stream != 1 and not s.around:
            raise Refusal(
                f"{s.kind} of layer {s.layer} multiplies the stream by {s.stream:.4g}, and no norm "
                "follows its sum or its branch: that is no rule's alpha"
            )
    return Selection(optimizer=under, **reading.select)  # type: ignore[arg-type]


def _require_understood(reading: Reading) -> None:
    """Stacks that the theory speaks of, each of layers that are alike."""
    if reading.skips:
        raise Refusal(reading.skips[0])
    names = tuple(reading.stacks)
    if names not in (("encoder",), ("decoder",), ("encoder", "decoder")):
        raise Refusal(f"the theory has no law for the stacks {', '.join(names)}")
    strange = next((s for s in reading.sublayers if s.kind == UNKNOWN), None)
    if strange is not None:
        where = strange.matrices[0].name if strange.matrices else f"layer {strange.layer}"
        seen = f": {strange.why}" if strange.why else f", that with {where}"
        raise Refusal(f"a branch of the {strange.stack} was not understood{seen}")
    for name, layers in zip(names, reading.layer_texts, strict=True):
        usual, _ = Counter(layers).most_common(1)[0]
        if odd := next((text for text in layers if text != usual), ""):
            raise Refusal(
                f"the layers of the {name} differ: layer {layers.index(odd)} is {odd}, others are "
                f"{usual}, and no rule here is of layers that differ"
            )


def _derived(reading: Reading, chosen: Selection, depth: Mapping[str, int]) -> Iterator[Wanted]:
    """The rules of one optimizer, for every placement with the model's norms and every closure."""
    # a closure of the learning rate alone is left out: weights do not show it
    shown = [name for name, closure in CLOSURES.items() if "eta" not in closure.knobs]
    route = "" if chosen.method == "probe" else f", {chosen.method} route"

    around = {s.around for s in reading.sublayers}
    alike = [p for p in PLACEMENTS.values() if {p.norms} == around]
    for where, name in product(alike, shown):
        placed = replace(chosen, placement=where.name, closure=name)
        with suppress(DeepNetTheoryError):  # there is no such rule
            c = Constants.of(placed, texts(table(placed).rule), depth, Architecture())
            yield replace(
                rows_of(reading, c),
                detail=f"closure {name}{route}",
                degrees=degrees(chosen.the_optimizer),
                selection=placed,
            )


def depth_of(reading: Reading) -> dict[str, int]:
    """N and M; a single stack answers to both."""
    layers = list(reading.layers.values())
    return {"N": layers[0], "M": layers[-1]}


# ---- published schemes ----


def _published(reading: Reading, under: str | None, depth: Mapping[str, int]) -> Iterator[Wanted]:
    for given in SCHEMES.values():
        if _has_inner(given) == any(INSIDE in norms_of(s) for s in reading.sublayers):
            with suppress(Refusal):
                yield _sizes_of_scheme(reading, given, under, depth)


def _has_inner(given: Scheme) -> bool:
    return any(s.normed_inside for s in given.layer or ())


def require_shown(given: Scheme) -> None:
    """Raise :class:`Refusal` where no forward pass shows what a scheme sets."""
    if given.scales_inside:
        raise Refusal(
            f"no model is held against the scheme {given.name!r}: it divides what enters a branch "
            "by alpha, and an audit reads alpha on the residual sum"
        )


def of_scheme(reading: Reading, given: Scheme, under: str | None = None) -> Wanted:
    """What a scheme's author meant at the depth of one model: its own form is no fault.

    Raises :class:`Refusal` where no model shows it, where this one is of another stack, and where
    it was not understood.
    """
    sizes = _sizes_of_scheme(reading, given, under, depth_of(reading))
    return replace(sizes, steps=partial(_steps_of_scheme, reading, given))


def _sizes_of_scheme(
    reading: Reading, given: Scheme, under: str | None, depth: Mapping[str, int]
) -> Wanted:
    """The same without how parameters step."""
    require_shown(given)
    _require_understood(reading)
    parts = {part.part: part for part in given.parts}
    if len(parts) == 1 == len(reading.stacks):
        parts = dict.fromkeys(reading.stacks, given.parts[0])
    if set(parts) != set(reading.stacks):
        others = [
            name
            for name, s in SCHEMES.items()
            if len(s.parts) == len(reading.stacks) and s.equation == given.equation
        ]
        alike = f"; with its residual equation there are {', '.join(others)}" if others else ""
        raise Refusal(
            f"the scheme {given.name!r} sets constants for the stack {given.stack!r}, and the "
            f"model is of {' and '.join(reading.stacks)}{alike}"
        )
    inside = next((s for s in reading.sublayers if INSIDE in norms_of(s)), None)
    if inside is not None and not _has_inner(given):
        raise Refusal(f"{at(inside)} has a norm within its branch, and {given.name} has none there")
    if why := without_law(reading, (INSIDE,) * _has_inner(given)):
        raise Refusal(why)
    chosen = under or given.optimizer
    plain = not _has_inner(given)
    return Wanted(
        given.name,
        given.source,
        given.equation,
        tuple(_of_scheme(reading, given, parts, depth)),
        degrees(optimizer(chosen)),
        published=True,
        selection=Selection(chosen, **reading.select) if plain else None,  # type: ignore[arg-type]
        stream={name: given.value(part.embedding, **depth) for name, part in parts.items()},
    )


def _of_scheme(
    reading: Reading, given: Scheme, parts: dict[str, RuleEntry], depth: Mapping[str, int]
) -> Iterator[WantedSublayer]:
    carried = dict.fromkeys(parts, 1.0)  # as the reading has it: what no norm takes back
    for s in reading.sublayers:
        part, layer = parts[s.stack], {**depth, "l": s.layer + 1}
        kind = given.own(sublayer(s.kind))
        stream, branch = given.coefficients(given.value(part.alpha, **layer))
        stream *= carried[s.stack]
        carried[s.stack] = 1.0 if given.normalises_sum else stream
        width = s.matrices[0].fan_in if s.matrices else 1
        matrices = sublayer(s.kind).matrices
        yield WantedSublayer(
            given.norms | ({INSIDE} if kind.normed_inside else frozenset()),
            stream / branch if branch else float("inf"),
            {m.name: given.value(part.gain(m), **layer) for m in matrices},
            {m.name: given.value(given.rate_of(m.role), **layer) for m in matrices},
            std=evaluate(WIDTH.parse(given.std), d=width) if given.std else None,
        )


def _steps_of_scheme(reading: Reading, given: Scheme, d: Any) -> dict[str, float]:
    """What a scheme multiplies the knobs of a matrix or a norm's vector in a sublayer by."""
    layer = {**depth_of(reading), "l": (d.layer or 0) + 1}
    knobs = {"lr": given.rates, "eps": given.epsilon}
    if d.sublayer is None or d.role not in {*MATRICES, Role.NORM_GAIN, Role.NORM_BIAS}:
        return {}
    return {k: given.value(by.get(d.role, "1"), **layer) for k, by in knobs.items() if by}
