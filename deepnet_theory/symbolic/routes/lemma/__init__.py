"""The lemma route: DeepNet's own argument, completed by the layer cake, in checked steps."""
