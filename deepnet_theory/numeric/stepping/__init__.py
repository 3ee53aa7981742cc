"""The optimizer's first step: its expression per seed, and its real implementation."""
