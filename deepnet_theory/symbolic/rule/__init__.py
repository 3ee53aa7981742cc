"""From an increment to a rule, and what follows from it."""
