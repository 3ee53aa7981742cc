"""Moved to :mod:`deepnet_theory.symbolic.laws.placement`."""

import sys

import deepnet_theory.symbolic.laws.placement as moved

sys.modules[__name__] = moved
