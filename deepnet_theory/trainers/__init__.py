"""A rule in a trainer's own words: numbers by the names of a model's parameters."""
