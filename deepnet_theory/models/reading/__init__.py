"""A model read: ``recording`` → ``norms`` → ``sums`` → ``weights`` → ``roles`` → ``assembling``."""

from deepnet_theory.models.reading.assembling import read

__all__ = ["read"]
