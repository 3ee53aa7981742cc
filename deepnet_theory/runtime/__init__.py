"""The model builder: torch and the standard library only."""
