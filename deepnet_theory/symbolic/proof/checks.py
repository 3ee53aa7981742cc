"""Moved to :mod:`deepnet_theory.symbolic.proof.step`."""

import sys

import deepnet_theory.symbolic.proof.step as moved

sys.modules[__name__] = moved
