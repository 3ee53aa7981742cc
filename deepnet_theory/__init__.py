"""How residual connections and initialisation must scale with depth, derived and measured.

A tour::

    import deepnet_theory as dt

    d = dt.derive(optimizer="lamb")                # every step checked; a page of mathematics
    d.rule.alpha, d.rule.beta                      # recommended for training: SymPy, in the depth N
    d.published.alpha, d.published.beta            # as its source has it
    d.rule.alpha_at(N=100), d.rule.beta_at(N=100)  # their numbers
    dt.predict_update(d, depths=[8, 10_000])       # ‖ΔF‖/η in absolute size, at any depth
    v = dt.verify(d, depths=[8, 16, 32, 64, 128])  # measured on torch Transformer stacks
    v.verdict, dt.plot(v)                          # SUPPORTED, UNDECIDED or REFUTED; a figure
    v.exponents[0].estimate, v.assumptions         # with intervals; every premise measured too
    constants = dt.export(d, depth=200, width=512)
    constants.save("constants.json")

    model = dt.build("constants.json")             # torch.nn.Module on token ids
    groups = dt.parameter_groups(model, lr=1e-3)   # the rule's learning rates, for any optimizer

``derive`` needs SymPy alone; torch is imported by what measures, builds or trains, when it is
called. An optimizer of your own is its first update, as an expression in eta, g and theta::

    dt.derive(update="-eta*norm(theta)*sign(g)")

and a block of your own a list of sublayers::

    dt.derive(optimizer="adam", layer="attention,ffn:swiglu")

A rule of your own is measured like the derived one::

    mine = dt.own_rule(d.selection, alpha="N**(1/3)", beta="N**(-1/3)")
    dt.verify(d, rule=mine, seeds=4, processes=None)  # None: one process a core

So are models of your own: does a step of their own optimizer move them alike at every depth? ::

    dt.measure(make_model, [6, 12, 24], optimizer="adamw")  # make_model(depth) gives a module

Bad input raises :class:`InputError`, a selection without a rule :class:`Refusal`; both say in
one sentence what was given and what is valid. The command line is ``deepnet-theory --help``.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from deepnet_theory.definitions import __version__ as __version__
from deepnet_theory.definitions.display import Displayed

if TYPE_CHECKING:
    from deepnet_theory.cli.auditing import audit as audit
    from deepnet_theory.cli.deriving import derive as derive
    from deepnet_theory.cli.deriving import export as export
    from deepnet_theory.cli.deriving import own_rule as own_rule
    from deepnet_theory.cli.experiments import predict_update as predict_update
    from deepnet_theory.cli.experiments import transfer as transfer
    from deepnet_theory.cli.experiments import verify as verify
    from deepnet_theory.definitions.constants import Constants as Constants
    from deepnet_theory.definitions.measurement import Result as Result
    from deepnet_theory.definitions.outcome import DeepNetTheoryError as DeepNetTheoryError
    from deepnet_theory.definitions.outcome import InputError as InputError
    from deepnet_theory.definitions.outcome import MissingExtraError as MissingExtraError
    from deepnet_theory.definitions.outcome import Refusal as Refusal
    from deepnet_theory.definitions.outcome import Verdict as Verdict
    from deepnet_theory.definitions.rule import Rule as Rule
    from deepnet_theory.definitions.selection import Selection as Selection
    from deepnet_theory.laboratory.measuring import measure as measure
    from deepnet_theory.laboratory.transfer import train as train
    from deepnet_theory.models.applying import apply_ as apply_
    from deepnet_theory.models.groups import guard as guard
    from deepnet_theory.models.groups import parameter_groups as parameter_groups
    from deepnet_theory.proof.derivation import Derivation as Derivation
    from deepnet_theory.report.formatters import plot as plot
    from deepnet_theory.runtime import build as build
    from deepnet_theory.runtime import start_head_ as start_head_

_HOMES = {
    "laboratory.measuring": ("measure",),
    "models.applying": ("apply_",),
    "models.groups": ("guard", "parameter_groups"),
    "runtime": ("build", "start_head_"),
    "definitions.constants": ("Constants",),
    "definitions.outcome": (
        "DeepNetTheoryError", "InputError", "MissingExtraError", "Refusal", "Verdict",
    ),
    "definitions.measurement": ("Result",),
    "definitions.rule": ("Rule",),
    "definitions.selection": ("Selection",),
    "proof.derivation": ("Derivation",),
    "laboratory.transfer": ("train",),
    "cli.auditing": ("audit",),
    "cli.deriving": ("derive", "export", "own_rule"),
    "cli.experiments": ("predict_update", "transfer", "verify"),
    "report.formatters": ("plot",),
}  # fmt: skip
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> object:
    # Names are fetched at first use: importing the package must not pay for SymPy or torch.
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


Displayed.formatters = partial(import_module, f"{__name__}.report.formatters")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])  # what an interpreter offers: no import of this file
