"""Moved."""
from deepnet_theory.spec.placement import *  # noqa
from deepnet_theory.spec.placement import NAMES, Streams, output_grammar, Mixing
LAW = "the law of several streams"
