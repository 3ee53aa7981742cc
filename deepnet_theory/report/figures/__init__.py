"""Figures as SVG, and as characters of a terminal."""
