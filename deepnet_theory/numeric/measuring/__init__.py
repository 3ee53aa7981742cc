"""What is measured of a stack: ‖ΔF‖/η, and what its sublayers do."""
