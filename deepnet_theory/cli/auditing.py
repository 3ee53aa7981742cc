"""Somebody's model, read and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from deepnet_theory.cli.deriving import own_rule
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.optimizer import optimizer as optimizer_named
from deepnet_theory.definitions.outcome import DeepNetTheoryError, InputError, Refusal, Verdict
from deepnet_theory.definitions.placement import placement
from deepnet_theory.definitions.record import Option
from deepnet_theory.definitions.rule import COMPLETE
from deepnet_theory.definitions.scheme import Scheme, not_exportable, schemes
from deepnet_theory.definitions.scheme import scheme as scheme_named
from deepnet_theory.definitions.selection import METHODS, STACKS
from deepnet_theory.definitions.subject import (
    EXACT,
    Wanted,
    as_asked,
    placed_forms,
    without_law,
)
from deepnet_theory.report.tables import grown, standing
from deepnet_theory.sizes import wanted as rules_of
from deepnet_theory.sizes.answer import Answer, for_training
from deepnet_theory.sizes.schemes import Row, trials

if TYPE_CHECKING:
    from torch import nn

    from deepnet_theory.definitions.audit import Audit
    from deepnet_theory.definitions.reading import Reading
    from deepnet_theory.models.factory import Made
    from deepnet_theory.processes import Progress


def audit(
    model: nn.Module | Made | str,
    inputs: object = None,
    *,
    optimizer: Annotated[
        Any,
        Option(
            "NAME",
            "Compare with the rules of this one; with those of all if not given",
            folder="optimizers",
        ),
    ] = None,
    constants: Annotated[
        Constants | str | Path | None, Option("FILE", "Compare with exported constants instead")
    ] = None,
    scheme: Annotated[
        str | None,
        Option(
            "NAME", "Compare with this published scheme alone; see `list schemes`", folder="schemes"
        ),
    ] = None,
    own: Mapping[str, Any] | None = None,
    roles: Mapping[str, str] | None = None,
    depth: Annotated[int | None, Option("N", "Depth given to the factory; 12")] = None,
    progress: Progress | None = None,
) -> Audit:
    """Whether a model follows a rule, and where not, by one recorded forward pass.

    The ``model`` is compared with ``constants`` where they are given; else with every closure's
    rule of the ``optimizer`` (its name, or a torch optimizer, whose groups are then read too:
    learning rates, and by constants ε and weight decay of every kind of parameter), or of each
    class of optimizers, and with the published schemes. A ``scheme`` is compared alone: its
    author's α, sizes, placement and rates. ``own`` is your own rule instead,
    ``{"alpha": "N**(1/3)", "beta": "N**(-1/3)"}``, with ``decoder_alpha`` and ``decoder_beta``
    where they differ, under the ``optimizer``. ``inputs`` are a tensor, a tuple or a mapping;
    ``roles`` name what was not understood, by patterns of parameter names:
    ``{"value": "*.v_proj.weight"}``. A text ``FILE.py:FACTORY`` is a model too, made at a
    ``depth``. Raises :class:`InputError` for a model that cannot be read, and :class:`Refusal` for
    a scheme that no forward pass shows.
    """
    from deepnet_theory.models.audit import judge, name_and_groups
    from deepnet_theory.models.factory import Made, load_factory, made
    from deepnet_theory.models.reading import read
    from deepnet_theory.runtime.building import checked

    if scheme is not None and constants is not None:
        raise InputError(f"constants were given with the scheme {scheme!r}: give one of them")
    asked = None if scheme is None else scheme_named(scheme)
    if asked is not None:
        rules_of.require_shown(asked)
    given = None if constants is None else checked(constants)
    called = model if isinstance(model, str) else type(model).__name__
    if isinstance(model, str):
        model = load_factory(model).make(depth)
    under, groups = None, dict[str, dict[str, float]]()
    if isinstance(optimizer, str):
        under = optimizer_named(optimizer).name
    elif optimizer is not None:
        under, groups = name_and_groups(optimizer, model)
    if own and (scheme is not None or constants is not None):
        raise InputError("a rule of your own was given beside constants or a scheme")
    if own and under is None:
        raise InputError("a rule of your own is audited under an optimizer: name it")
    eager = getattr(model, "_orig_mod", model)  # a compiled model's own code
    whole = eager if isinstance(eager, Made) else made(eager, inputs)
    # By what it does in one recorded pass and never by names, which lie: a block named as a pre-LN
    # one computed post-LN.
    reading = read(whole, roles=roles, progress=progress)
    if given is not None:
        reading = as_asked(reading, given)
    elif asked is None and any(
        start and abs(start - 1) > EXACT for start in (s.in_gain.start for s in reading.sublayers)
    ):
        reading = reading.in_gains  # somebody has put alpha there
    why_not = "" if asked is not None else without_law(reading, placed_forms(reading))
    rules, at_depth = list[Wanted](), None
    try:
        if asked is not None or given is not None:
            rules = [] if why_not else _asked_rules(reading, asked, given, under)
        elif own and under:
            rules = rules_of.of_own(reading, under, partial(own_rule, **own))
        else:
            at_depth = partial(rules_of.wanted, reading, under)
            rules = at_depth()
    except Refusal as refusal:
        rules, why_not = [], str(refusal)
    result = judge(whole, reading, rules, called, under, groups, why_not, at_depth)
    if asked is not None:
        result = replace(result, scheme=asked.name)
    of = under or (asked.optimizer if asked else None)
    if result.follows in schemes() and of is not None:  # to follow one is not to be balanced
        row = Row((of,), trials(schemes()[result.follows], optimizer_named(of)))
        remark = f"under {of}: {standing(row).removesuffix('.')}"
        result = replace(result, remarks=(*result.remarks, remark))
        if under is not None and (growth := grown(row)):
            growth = f"Under {of} one update grows as {growth}"
            result = replace(result, verdict=Verdict.REFUTED, growth=growth)
    origin = {} if given is None else given.origin
    if (exported := schemes().get(str(origin.get("scheme", result.scheme)))) is not None:
        words = {"scheme": exported.name, **reading.select}
        words.pop("placement", None)
        command = "" if not_exportable(exported) else _command("export", words, reading)
        return replace(result, command=command)
    return _with_rules(result, origin)


def _asked_rules(
    reading: Reading, scheme: Scheme | None, constants: Constants | None, under: str | None
) -> list[Wanted]:
    """What a scheme or constants ask of a model."""
    from deepnet_theory.models.audit import of_constants

    if constants is not None:
        return [rules_of.with_degrees(of_constants(reading, constants))]
    assert scheme is not None
    return [rules_of.of_scheme(reading, scheme, under)]


def _command(verb: str, words: Mapping[str, object], reading: Reading) -> str:
    """A command for these stacks; none where they have no words."""
    if not (reading.understood and reading.uniform) or reading.select["stack"] not in STACKS:
        return ""
    depth = ",".join(map(str, reading.layers.values()))
    options = (f"--{name} {quote(str(word))}" for name, word in {**words, "depth": depth}.items())
    return " ".join((f"deepnet-theory {verb}", *options))


def _with_rules(audit: Audit, origin: Mapping[str, Any]) -> Audit:
    """With the rules of the optimizer for these stacks, and the command that derives them.

    The optimizer and closure of given constants are those of their ``origin``.
    """
    select = origin.get("select")  # of a file, which may say anything there
    given = select if isinstance(select, dict) and origin.get("row") != "own" else {}
    under = audit.optimizer or given.get("optimizer")
    last = {"method": given["method"]} if given.get("method", METHODS[0]) != METHODS[0] else {}
    depth, rows, name = rules_of.depth_of(audit.reading), audit.rows, audit.reading.placement
    if name is None:
        return audit
    closure = given.get("closure", COMPLETE.name)
    try:
        if under is not None:
            selection = replace(rules_of.selection_of(audit.reading, under), placement=name)
            closure = given.get("closure", for_training(selection).closure)
            layers = {n: depth[n] for n in selection.the_stack.depths}
            rows = {row.named: row.told(**layers) for row in Answer(selection).rows}
    except DeepNetTheoryError:  # there is nothing to derive for it
        return audit
    words = {"optimizer": under or "NAME", **audit.reading.select, "placement": name, **last}
    words |= {"closure": closure} if closure else {}
    return replace(
        audit,
        closure=closure,
        command=_command("derive", words, audit.reading),
        condition=placement(name).training_condition if closure else "",
        rows=rows if audit.optimizer is not None else audit.rows,
    )
