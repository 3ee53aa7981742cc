"""What the claims take of the derivation's rooms: the one file that knows where things are."""

from deepnet_theory.cli.deriving import derive as derive_across
from deepnet_theory.proof.derivation import derive
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.exponents import cross_table
from deepnet_theory.sizes.width import texts
