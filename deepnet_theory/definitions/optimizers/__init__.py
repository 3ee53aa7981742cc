"""One file a value; see :mod:`deepnet_theory.definitions.discovery`."""
