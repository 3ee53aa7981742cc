"""Turns results into text, LaTeX, JSON, HTML and figures; computes nothing."""
