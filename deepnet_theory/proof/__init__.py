"""SymPy: turns a selection into a chain of checked steps that ends in a rule."""
