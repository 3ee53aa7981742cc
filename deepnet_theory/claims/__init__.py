"""The claims of the literature: where they lie, how they are checked, and the page of them."""
