"""What the sources write on the way and no conclusion rests on."""
