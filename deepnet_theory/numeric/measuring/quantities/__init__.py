"""One file a measurement; see :mod:`deepnet_theory.numeric.measuring.measurement`."""
