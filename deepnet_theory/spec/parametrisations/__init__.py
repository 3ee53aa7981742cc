"""One file a value; see :mod:`deepnet_theory.spec.discovery`."""
