"""The optimizer's steps: its expressions per seed, and its real implementation."""
