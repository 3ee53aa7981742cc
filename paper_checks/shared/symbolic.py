"""What the claims take of the derivation's rooms: the one file that knows where things are."""

from deepnet_theory.proof.derivation import derive
from deepnet_theory.proof.rule import Problem
from deepnet_theory.sizes.answer import compare_closures
from deepnet_theory.sizes.exponents import cross_table
from paper_checks.shared.expectation import Bernoulli, Gaussian, Index, Known, Tensor, expect
from paper_checks.shared.steps.catalogue import background, layer_cake
from paper_checks.shared.steps.magnitude import closed_form, gaussian_magnitude, probe_steps
