"""The order of the work, and what of it is done."""
