"""Moved to :mod:`deepnet_theory.symbolic.laws.explicit`."""

import sys

import deepnet_theory.symbolic.laws.explicit as moved

sys.modules[__name__] = moved
