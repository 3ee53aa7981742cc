"""How residual connections and initialisation must scale with depth, derived and measured."""

__version__ = "0.1.0"
