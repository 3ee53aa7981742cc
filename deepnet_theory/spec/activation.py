"""The activations of a feed-forward sublayer, by name."""

ACTIVATIONS = ("relu", "gelu", "silu")
