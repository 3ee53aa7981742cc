"""Monte Carlo on the runtime's own stacks: estimates and verdicts."""
