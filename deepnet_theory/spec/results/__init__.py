"""What commands hand back: frozen data, with its public JSON."""
