"""Steps, how their relations compose, and how they are checked."""
