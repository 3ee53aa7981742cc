"""What is being talked about: frozen data, standard library only."""
