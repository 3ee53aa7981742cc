"""What is being talked about: frozen data, standard library only."""

__version__ = "0.1.0"
