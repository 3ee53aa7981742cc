"""Moved to :mod:`deepnet_theory.symbolic.beyond`."""

import sys

import deepnet_theory.symbolic.beyond as moved

sys.modules[__name__] = moved
