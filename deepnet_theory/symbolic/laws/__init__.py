"""What is assumed of the world: optimizers, placements, branches, their parameters."""
