"""How residual connections and initialisation must scale with depth, derived and measured.

A tour::

    import deepnet_theory as dt

    d = dt.derive(optimizer="lamb")                # every step checked; a page of mathematics
    d.rule.alpha, d.rule.beta                      # SymPy expressions in the depth N
    d.rule.alpha_at(N=100), d.rule.beta_at(N=100)  # their numbers
    dt.predict_update(d, depths=[8, 10_000])       # ‖ΔF‖/η in absolute size, at any depth
    v = dt.verify(d, depths=[8, 16, 32, 64, 128])  # measured on torch Transformer stacks
    v.verdict, v.plot()                            # SUPPORTED, UNDECIDED or REFUTED; a figure
    v.exponents[0].estimate, v.assumptions         # with intervals; every premise measured too
    dt.make_report(d).save("report.html")          # all of it in one page, rivals beside it
    constants = dt.export(d, depth=200, width=512)
    constants.save("constants.json")

    model = dt.build("constants.json")             # torch.nn.Module on token ids

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

from importlib import import_module
from typing import TYPE_CHECKING

from deepnet_theory.spec import __version__ as __version__

if TYPE_CHECKING:
    from deepnet_theory.models.measuring import measure
    from deepnet_theory.runtime import apply_, build
    from deepnet_theory.spec.constants import Constants
    from deepnet_theory.spec.errors import (
        DeepNetTheoryError,
        InputError,
        MissingExtraError,
        Refusal,
    )
    from deepnet_theory.spec.results.prediction import UpdatePrediction
    from deepnet_theory.spec.results.training import Transfer
    from deepnet_theory.spec.results.verification import ModelMeasurement, Verification
    from deepnet_theory.spec.rule import Rule
    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.spec.verdict import Verdict
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.training import train
    from deepnet_theory.workflow import (
        audit,
        derive,
        derive_across,
        export,
        judge_scheme,
        make_report,
        own_rule,
        predict_scheme,
        predict_update,
        transfer,
        verify,
        verify_scheme,
        verify_width,
    )

_HOMES = {
    "audit": "workflow",
    "derive": "workflow",
    "derive_across": "workflow",
    "verify": "workflow",
    "export": "workflow",
    "make_report": "workflow",
    "own_rule": "workflow",
    "judge_scheme": "workflow",
    "verify_scheme": "workflow",
    "verify_width": "workflow",
    "predict_update": "workflow",
    "predict_scheme": "workflow",
    "transfer": "workflow",
    "measure": "models.measuring",
    "apply_": "runtime",
    "build": "runtime",
    "train": "training",
    "ModelMeasurement": "spec.results.verification",
    "Derivation": "symbolic.derivation",
    "Transfer": "spec.results.training",
    "UpdatePrediction": "spec.results.prediction",
    "Verification": "spec.results.verification",
    "Constants": "spec.constants",
    "Selection": "spec.selection",
    "Rule": "spec.rule",
    "Verdict": "spec.verdict",
    "DeepNetTheoryError": "spec.errors",
    "InputError": "spec.errors",
    "MissingExtraError": "spec.errors",
    "Refusal": "spec.errors",
}

__all__ = [
    "Constants",
    "DeepNetTheoryError",
    "Derivation",
    "InputError",
    "MissingExtraError",
    "ModelMeasurement",
    "Refusal",
    "Rule",
    "Selection",
    "Transfer",
    "UpdatePrediction",
    "Verdict",
    "Verification",
    "apply_",
    "audit",
    "build",
    "derive",
    "derive_across",
    "export",
    "judge_scheme",
    "make_report",
    "measure",
    "own_rule",
    "predict_scheme",
    "predict_update",
    "train",
    "transfer",
    "verify",
    "verify_scheme",
    "verify_width",
]


def __getattr__(name: str) -> object:
    # Names are fetched at first use: importing the package must not pay for SymPy or torch.
    if name not in _HOMES:
        raise AttributeError(f"module 'deepnet_theory' has no attribute {name!r}")
    return getattr(import_module(f"deepnet_theory.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])  # what an interpreter offers: no import of this file
