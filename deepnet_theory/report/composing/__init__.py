"""A result as a document: one composer for each kind of result."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepnet_theory.report.document import Document

COMPOSERS = {  # by the name of the result's class
    "Audit": "of_audit",
    "Comparison": "of_closures",
    "Derivation": "of_derivation",
    "Judgement": "of_scheme",
    "ModelMeasurement": "of_model",
    "Training": "of_training",
    "Transfer": "of_transfer",
    "UpdatePrediction": "of_prediction",
    "Verification": "of_verification",
}


def document(result: object) -> Document:
    """What a result says; the composer of its kind alone is imported."""
    composer = import_module(f"{__name__}.{COMPOSERS[type(result).__name__]}")
    found: Document = composer.document(result)
    return found
