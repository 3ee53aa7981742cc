"""From measured values to exponents, intervals and verdicts."""
