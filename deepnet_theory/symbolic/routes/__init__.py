"""The three ways to the increment of one sublayer."""
