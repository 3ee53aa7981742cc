"""A result as a document: one composer for each kind of result, found by its name."""

from __future__ import annotations

from importlib import import_module

from deepnet_theory.report.document import Document

COMPOSERS = {  # by the name of the result's class: a module, and a function of it
    "Audit": ("audit", "document"),
    "Comparison": ("rule", "comparison"),
    "Derivation": ("rule", "document"),
    "Judgement": ("scheme", "document"),
    "ModelMeasurement": ("measurement", "model_document"),
    "Training": ("training", "document"),
    "Transfer": ("training", "transfer_document"),
    "UpdatePrediction": ("measurement", "prediction_document"),
    "WidthJudgement": ("parametrisation", "document"),
    "WidthDerivation": ("width", "document"),
    "Verification": ("measurement", "document"),
}


def document(result: object) -> Document:
    """What a result says; the composer of its kind alone is imported."""
    module, function = COMPOSERS[type(result).__name__]
    composed: Document = getattr(import_module(f"deepnet_theory.report.{module}"), function)(result)
    return composed
