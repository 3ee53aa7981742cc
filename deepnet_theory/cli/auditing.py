"""Somebody's model, read and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from deepnet_theory.cli.deriving import own_rule
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import DeepNetTheoryError, InputError, Refusal, Verdict
from deepnet_theory.definitions.placement import placement
from deepnet_theory.definitions.rule import COMPLETE
from deepnet_theory.definitions.scheme import Scheme, not_exportable, schemes
from deepnet_theory.definitions.scheme import scheme as scheme_named
from deepnet_theory.definitions.selection import METHODS, STACKS

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from deepnet_theory.definitions.audit import Audit
    from deepnet_theory.definitions.reading import Reading
    from deepnet_theory.models.factory import Made
    from deepnet_theory.processes import Progress


def audit(
    model: nn.Module | Made,
    inputs: object = None,
    *,
    optimizer: str | Optimizer | None = None,
    constants: Constants | str | Path | None = None,
    scheme: str | None = None,
    own: Mapping[str, Any] | None = None,
    roles: Mapping[str, str] | None = None,
    name: str = "",
    progress: Progress | None = None,
) -> Audit:
    """Whether somebody's model follows a rule, and where not, by one recorded forward pass.

    It is held against ``constants`` where they are given; else against every closure's rule of the
    ``optimizer`` (its name, or a torch optimizer, whose groups are then looked at too: learning
    rates, and by constants ε and weight decay of every kind of parameter), or of each class of
    optimizers, and against the published schemes. ``scheme`` names the one of them that is meant:
    the model is then held against its author's α, sizes, placement and rates alone. ``own`` is a
    rule of one's own instead, ``{"alpha": "N**(1/3)", "beta": "N**(-1/3)"}``, with
    ``decoder_alpha`` and ``decoder_beta`` where they differ, under the ``optimizer``. ``inputs``
    are a tensor, a tuple or a mapping; ``roles`` say what was not understood, by patterns of
    parameter names: ``{"value": "*.v_proj.weight"}``. Raises :class:`InputError` for a model that
    cannot be read, and :class:`Refusal` for a scheme that no forward pass shows.
    """
    from deepnet_theory.definitions.optimizer import optimizer as named
    from deepnet_theory.definitions.subject import (
        EXACT,
        as_asked,
        differences,
        placed_forms,
        without_law,
    )
    from deepnet_theory.models.audit import judge, name_and_groups, of_constants
    from deepnet_theory.models.factory import Made, made
    from deepnet_theory.models.reading import read
    from deepnet_theory.report.tables import grown, standing
    from deepnet_theory.runtime.building import checked
    from deepnet_theory.sizes.schemes import Row, trials
    from deepnet_theory.sizes.wanted import (
        in_weights,
        of_own,
        of_scheme,
        require_shown,
        wanted,
        with_degrees,
    )

    if scheme is not None:
        if constants is not None:
            raise InputError(f"constants were given with the scheme {scheme!r}: give one of them")
        asked = scheme_named(scheme)
        require_shown(asked)
    under, groups = None, dict[str, dict[str, float]]()
    if isinstance(optimizer, str):
        under = named(optimizer).name
    elif optimizer is not None:
        under, groups = name_and_groups(optimizer, model)
    if own:
        if scheme is not None or constants is not None:
            raise InputError("a rule of one's own was given beside constants or a scheme")
        if under is None:
            raise InputError("a rule of one's own is audited under an optimizer: name it")
    eager = getattr(model, "_orig_mod", model)  # a compiled model's own code
    whole = eager if isinstance(eager, Made) else made(eager, inputs)
    # By what it does in one recorded pass and never by names, which lie: a block named as a pre-LN
    # one computed post-LN.
    reading = read(whole, roles=roles, progress=progress)
    if constants is not None:
        reading = as_asked(reading, checked(constants))
    elif scheme is None:
        starts = (s.in_gain.start for s in reading.sublayers)
        if any(start and abs(start - 1) > EXACT for start in starts):
            reading = reading.in_gains  # somebody has put alpha there
    why_not = "" if scheme is not None else without_law(reading, placed_forms(reading))
    at_depth = None
    try:
        if scheme is not None:
            meant = () if why_not else (of_scheme(reading, asked, under),)
            forms = [f for r in meant for f in (r, in_weights(reading, asked, r, under))]
            # the author's form, unless the other one, whose alpha is in the weights, is nearer
            rules = sorted(forms, key=lambda rule: len([*differences(reading, rule)]))[:1]
        elif constants is not None:
            rules = [] if why_not else [with_degrees(of_constants(reading, constants))]
        elif own and under:
            rules = of_own(reading, under, partial(own_rule, **own))
        else:
            rules, at_depth = wanted(reading, under), partial(wanted, reading, under)
    except Refusal as refusal:
        rules, why_not = [], str(refusal)
    called = name or type(model).__name__
    result = judge(whole, reading, rules, called, under, groups, why_not, at_depth)
    of = under
    if scheme is not None:
        result, of = replace(result, scheme=asked.name), under or asked.optimizer
    if result.follows in schemes() and of is not None:  # to follow one is not to be balanced
        row = Row((of,), trials(schemes()[result.follows], named(of)))
        remark = f"under {of}: {standing(row).removesuffix('.')}"
        result = replace(result, remarks=(*result.remarks, remark))
        if under is not None and (growth := grown(row)):
            growth = f"Under {of} one update grows as {growth}"
            result = replace(result, verdict=Verdict.REFUTED, growth=growth)
    origin = {} if constants is None else checked(constants).origin
    if (exported := schemes().get(str(origin.get("scheme", result.scheme)))) is not None:
        return replace(result, command=_export(exported, reading))
    return _with_rules(result, origin)


def _command(verb: str, words: Mapping[str, object], reading: Reading) -> str:
    """A command for these stacks; none where they have no words."""
    if not (reading.understood and reading.uniform) or reading.select["stack"] not in STACKS:
        return ""
    depth = ",".join(map(str, reading.layers.values()))
    options = (f"--{name} {quote(str(word))}" for name, word in {**words, "depth": depth}.items())
    return " ".join((f"deepnet-theory {verb}", *options))


def _export(given: Scheme, reading: Reading) -> str:
    """The command that exports a scheme for a model; none for a scheme that has no constants."""
    if not_exportable(given):
        return ""
    stacks = {name: word for name, word in reading.select.items() if name != "placement"}
    words = {"scheme": given.name, **stacks}
    width = next((m.fan_in for s in reading.sublayers for m in s.matrices), 0)
    hidden = {m.fan_out for s in reading.sublayers for m in s.matrices if m.role in ("fc1", "up")}
    if given.std and len(hidden) == 1:  # its gains hang on the widths
        words |= {"width": str(width), "ffn-ratio": f"{hidden.pop() / width:.10g}"}
    return _command("export", words, reading)


def _with_rules(audit: Audit, origin: Mapping[str, Any]) -> Audit:
    """With the rules of the optimizer for these stacks, and the command that derives them.

    The optimizer and closure of given constants are those of their ``origin``.
    """
    from deepnet_theory.sizes.answer import Answer, for_training
    from deepnet_theory.sizes.wanted import depth_of, selection_of

    select = origin.get("select")  # of a file, which may say anything there
    given = select if isinstance(select, dict) and origin.get("row") != "own" else {}
    under = audit.optimizer or given.get("optimizer")
    last = {"method": given["method"]} if given.get("method", METHODS[0]) != METHODS[0] else {}
    depth, rows, name = depth_of(audit.reading), audit.rows, audit.reading.placement
    if name is None:
        return audit
    closure = given.get("closure", COMPLETE.name)
    try:
        if under is not None:
            selection = replace(selection_of(audit.reading, under), placement=name)
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
