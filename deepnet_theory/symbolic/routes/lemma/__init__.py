"""The lemma route: DeepNet's own argument, completed by the layer cake, in checked steps."""

from deepnet_theory.symbolic.routes.lemma.legacy import given_symbols, lemma_steps
from deepnet_theory.symbolic.routes.lemma.route import lemma_route

__all__ = ["given_symbols", "lemma_route", "lemma_steps"]
