"""The moment route: the layer cake's §5 by mean squares, for other placements and stacks too."""
