"""The moment route: the layer cake's §5, with matrices, exact expectations and its conditions.

What the source derives: the second moments of a post-LN sublayer with independent Gaussian
weights, the recursion of the change through it, and the coefficient √(v²+w²)/α of ‖Δθ‖. What is
added: the Jacobian of the norm exactly, ReLU's mask as the function of the weights that it is,
Xavier's variances, any number of heads, how near ‖z‖ is to its mean square, the update as an
optimizer makes it, the sequence length, and the decoder's cross-attentions.
"""

from deepnet_theory.symbolic.routes.moments.route import BRANCHES, branches, moment_route

__all__ = ["BRANCHES", "branches", "moment_route"]
