"""The best learning rate, searched at several depths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.exponents import relative_updates
from deepnet_theory.sizes.rule import closure_of
from deepnet_theory.spec.constants import Sizes
from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.workflow.exporting import constants_of
from deepnet_theory.workflow.given import selection_of, settings_and_work

if TYPE_CHECKING:
    from deepnet_theory.spec.results.training import Transfer
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.workflow.given import Given

FEWEST_RATES = 3  # a best rate and its neighbours
TRANSFER: Given = {"batch": 8, "seeds": 4}  # what training takes where it is not given


def transfer(
    selection: Selection | Derivation | str | None = None,
    depths: str | Iterable[object] | None = None,
    rates: str | Iterable[float] = (),
    closures: Iterable[str] | None = None,
    *,
    rule: Rule | None = None,
    steps: int = 100,
    text: str | Path | None = None,
    outer: str = "stepped",
    **given: Unpack[Given],
) -> Transfer:
    r"""Train at every depth with every learning rate, and say whether the best one transfers.

    .. math:: \eta^*(N) \propto N^{c}, \qquad \text{it transfers where the interval of } c
              \text{ over seeds lies inside } \pm\tfrac1{16}

    The loss is the held-out one after ``steps`` steps of the selection's optimizer on windows of
    ``text``, next byte. Every kind of parameter is stepped at its derived multiplier; embedding
    and head are too, unless ``outer`` is "held", so that the stack alone decides.
    ``transfer("adam", [8, 32], "1e-4:1e-1", ["complete", "symmetric"])`` makes one curve a depth
    and closure; without ``closures`` of ``complete`` and the one that :func:`derive` shows.
    ``rule`` stands beside them as "own".
    ``given`` is that of :func:`verify`.
    Raises :class:`InputError` for what cannot be trained and :class:`Refusal` where a closure
    gives no rule, or the optimizer is known by its first step alone.
    """
    from deepnet_theory.numeric.case import VOCAB
    from deepnet_theory.numeric.depths import depth_key, wanted_depths
    from deepnet_theory.numeric.schedule import rule_to_dict
    from deepnet_theory.spec.closures.complete import COMPLETE
    from deepnet_theory.training.runs import causal
    from deepnet_theory.training.transfer import Candidate, Course, parse_rates
    from deepnet_theory.training.transfer import transfer as run

    selection = selection_of(selection, {})
    stack = selection.the_stack
    if len(stack.parts) > 1:
        raise InputError(
            f"transfer trains stacks of one part, and {selection.stack!r} has two; valid are: "
            "encoder, decoder"
        )
    for name in ("draws", "updates", "eta"):
        if name in given:
            raise InputError(f"{name} was given, which is for verify; leave it out of transfer")
    settings, work = settings_and_work({**TRANSFER, **given})
    wanted = wanted_depths(depths, stack)
    grid = parse_rates(rates if isinstance(rates, str) else list(rates))
    if len(grid) < FEWEST_RATES:
        raise InputError(
            f"the rates {shown(rates)} can decide nothing: the best rate lies between two others; "
            f"give {FEWEST_RATES} or more, such as 1e-4:1e-2"
        )
    # a worker elsewhere has another folder
    place = None if text is None else str(Path(text).absolute())
    course = Course(selection.the_optimizer, settings, steps, place, outer)
    names = dict.fromkeys(closures or [COMPLETE.name, closure_of(selection).name])
    answers: dict[str, tuple[Answer, Rule | None]] = {
        name: (Answer(replace(selection, closure=name)), None) for name in names
    }
    if rule is not None:
        answers["own"] = (Answer(selection), rule)
    sizes: Sizes = {
        "width": settings.width, "heads": settings.heads, "ffn_ratio": settings.ffn_ratio,
        "vocab": VOCAB, "activation": settings.activation,
    }  # fmt: skip
    candidates = [
        Candidate(
            closure=name,
            rule=rule_to_dict(own or answer.rule),
            rho=_relative_update(selection, own or answer.rule),
            failing=None if own else _failing_exponent(answer),
            constants={
                depth_key(depth): causal(
                    constants_of(answer, next(iter(depth.values())), own, "forward", sizes)
                )
                for depth in wanted
            },
        )
        for name, (answer, own) in answers.items()
    ]
    return run(selection, candidates, wanted, grid, course, **work)


def _failing_exponent(answer: Answer) -> float:
    """The derived exponent in depth of the largest stable rate, of the kind that falls most."""
    return min(float(row.failing.exponent(row.depth)) for row in answer.orders)


def _relative_update(selection: Selection, rule: Rule) -> str:
    """ρ of the scaled matrices in units of η, for each kind of sublayer where they differ."""
    found = {entry.sublayer: entry.rho for entry in rule.entries}
    if not all(found.values()):  # nobody derived it
        found = relative_updates(selection, rule)
    if len({*found.values()}) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{sublayer} {rho}" for sublayer, rho in found.items())
