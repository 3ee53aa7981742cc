"""A model, read and judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepnet_theory.cli.deriving import refuse
from deepnet_theory.definitions import subject
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.optimizer import optimizer as optimizer_named
from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.definitions.record import LARGEST, Option
from deepnet_theory.definitions.scheme import SCHEMES
from deepnet_theory.definitions.scheme import scheme as scheme_named
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.report.tables import grown, standing
from deepnet_theory.sizes import wanted as rules_of
from deepnet_theory.sizes.exponents import judge as judge_scheme
from deepnet_theory.sizes.width import role_table

if TYPE_CHECKING:
    from torch import nn

    from deepnet_theory.definitions.audit import Audit
    from deepnet_theory.definitions.measurement import Estimate
    from deepnet_theory.models.factory import Made
    from deepnet_theory.processes.jobs import Progress

Under = Annotated[Any, Option("NAME", "Compare with its rules; all rules", folder="optimizers")]
File = Annotated[Constants | str | Path | None, Option("FILE", "Compare with these constants")]
Named = Annotated[str | None, Option("NAME", "Compare with this scheme", folder="schemes")]


def audit(
    model: nn.Module | Made | str,
    inputs: object = None,
    *,
    optimizer: Under = None,
    constants: File = None,
    scheme: Named = None,
    roles: Mapping[str, str] | None = None,
    depth: Annotated[int | None, Option("N", "Depth given to the factory; 12")] = None,
    noise: Annotated[bool, Option("", "B_noise by group beside your batch, see `measure`")] = False,
    batch: Annotated[float | None, Option("B", "Your batch, in sequences; the inputs'")] = None,
    progress: Progress | None = None,
) -> Audit:
    """Whether a model follows a rule, and where not, by one recorded forward pass.

    The ``model``, a module or a text ``FILE.py:FACTORY`` with its ``depth``, is compared with
    ``constants`` if given; with one published ``scheme`` (its α, sizes, placement and rates) if
    given; else with every closure's rule of the ``optimizer``, or of each class of optimizers, and
    with the published schemes. A torch optimizer is read too: the learning rate, ε and weight decay
    of its groups. ``inputs`` are a tensor, a tuple or a mapping. ``roles`` name what was not
    understood by patterns of parameter names: ``{"value": "*.v_proj.weight"}``. ``noise`` says
    which groups of parameters noise dominates at your ``batch``, and what one learning rate for all
    costs each. Raises :class:`InputError` for a model that cannot be read, and :class:`Refusal` for
    a scheme that no forward pass shows.
    """
    from deepnet_theory.models.audit import judge, name_and_groups, of_constants
    from deepnet_theory.models.factory import Made, load_factory, made
    from deepnet_theory.models.reading import read
    from deepnet_theory.runtime.building import checked

    asked, called = None if scheme is None else scheme_named(scheme), type(model).__name__
    if asked is not None:
        refuse({"constants": constants}, f"with the scheme {asked.name!r}: give one of them")
        rules_of.require_shown(asked)
    given = None if constants is None else checked(constants)
    if isinstance(model, str):
        called, model = model, load_factory(model).make(depth)
    under, groups = None, dict[str, dict[str, float]]()
    if isinstance(optimizer, str):
        under = optimizer_named(optimizer).name
    elif optimizer is not None:
        under, groups = name_and_groups(optimizer, model)
    eager = getattr(model, "_orig_mod", model)  # a compiled model's own code
    whole = eager if isinstance(eager, Made) else made(eager, inputs)
    # by what it does and never by names, which lie: a block named pre-LN computed post-LN
    reading = read(whole, roles=roles, progress=progress)
    if given is not None:
        reading = subject.as_asked(reading, given)
    reading = reading.in_gains  # somebody may have put alpha there
    why_not = "" if asked is not None else subject.without_law(reading)
    rules, at_depth = list[subject.Wanted](), None
    try:
        if given is not None:
            rules = [] if why_not else [of_constants(reading, given)]
        elif asked is not None:
            rules = [rules_of.of_scheme(reading, asked, under)]
        else:
            at_depth = partial(rules_of.wanted, reading, under)
            rules = at_depth()
    except Refusal as refusal:
        rules, why_not = [], str(refusal)
    result = judge(whole, reading, rules, called, under, groups, why_not, at_depth)
    result = replace(result, scheme=asked.name if asked else None)
    if noise or batch is not None:
        result = replace(result, noise=tuple(_noise(whole, batch, under)))
    of = under or (asked.optimizer if asked else None)
    follows = SCHEMES.get(result.follows or "")
    if follows and of is not None:  # to follow one is not to be balanced
        parts = judge_scheme(follows, optimizer_named(of)).parts
        remark = f"under {of}: {standing(parts).removesuffix('.')}"
        result = replace(result, remarks=(*result.remarks, remark))
        if under is not None and (growth := grown(parts)):
            growth = f"Under {of} one update grows as {growth}"
            result = replace(result, verdict=Verdict.REFUTED, growth=growth)
    return result


def _noise(whole: Made, batch: float | None, under: str | None) -> Iterator[Estimate]:
    """B_noise of a copy of the model beside a batch, that of its inputs where none is given."""
    from deepnet_theory.laboratory.model_steps import on_text
    from deepnet_theory.laboratory.noise import SEQUENCES, at_batch, noise_of

    batch = None if whole.drawn and batch is None else batch or whole.sequences
    if batch is None or not 0 < batch <= LARGEST:
        raise InputError(f"the batch {batch} is none: give the sequences of a step, as --batch 64")
    copy = on_text(replace(whole, module=deepcopy(whole.module)), 0)
    rates = role_table(Selection(under), "batch").rows if under else ()
    power = next((float(row.rate.exponent("B")) for row in rates if row.rate is not None), None)
    return at_batch(noise_of(copy, SEQUENCES), batch, power)
