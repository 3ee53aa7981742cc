"""The moment route: the layer cake's §5 by exact expectations over Gaussian matrices.

What the source derives: the second moments of a post-LN sublayer with independent Gaussian
weights, the recursion of the change through it, and the coefficient √(v²+w²)/α of ‖Δθ‖. What is
added: other placements, the Jacobian of the norm exactly, and the decoder's cross-attentions.
"""
