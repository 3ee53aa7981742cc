"""Derive, verify, export, make a report: joins the rooms, computes nothing itself.

One module for each thing to do; each function imports the room that it needs when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepnet_theory.workflow.auditing import audit as audit
    from deepnet_theory.workflow.deriving import compare_closures as compare_closures
    from deepnet_theory.workflow.deriving import derive as derive
    from deepnet_theory.workflow.deriving import derive_across as derive_across
    from deepnet_theory.workflow.deriving import export as export
    from deepnet_theory.workflow.deriving import judge_scheme as judge_scheme
    from deepnet_theory.workflow.deriving import own_rule as own_rule
    from deepnet_theory.workflow.experiments import predict as predict
    from deepnet_theory.workflow.experiments import predict_scheme as predict_scheme
    from deepnet_theory.workflow.experiments import predict_update as predict_update
    from deepnet_theory.workflow.experiments import rival_rules as rival_rules
    from deepnet_theory.workflow.experiments import transfer as transfer
    from deepnet_theory.workflow.experiments import verify as verify
    from deepnet_theory.workflow.experiments import verify_rivals as verify_rivals
    from deepnet_theory.workflow.experiments import verify_scheme as verify_scheme
    from deepnet_theory.workflow.experiments import verify_width as verify_width
    from deepnet_theory.workflow.reporting import Report as Report
    from deepnet_theory.workflow.reporting import make_report as make_report

_HOMES = {
    "auditing": ("audit",),
    "deriving": (
        "compare_closures", "derive", "derive_across", "export", "judge_scheme", "own_rule",
    ),
    "experiments": (
        "predict", "predict_scheme", "predict_update", "rival_rules", "transfer", "verify",
        "verify_rivals", "verify_scheme", "verify_width",
    ),
    "reporting": ("Report", "make_report"),
}  # fmt: skip


def __getattr__(name: str) -> object:
    # Importing torch takes longer than a whole derivation, and SymPy longer than an export: a name
    # is fetched when it is used, and its module imports the room that it needs when it is called.
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
