"""What follows from a rule: sizes as powers of the depth, shares of every parameter, growth."""
