"""The lemma route: DeepNet's own argument, completed by the layer cake, in checked steps."""

from deepnet_theory.symbolic.routes.lemma.jacobians import products_at
from deepnet_theory.symbolic.routes.lemma.route import given_symbols, lemma_steps

__all__ = ["given_symbols", "lemma_steps", "products_at"]
