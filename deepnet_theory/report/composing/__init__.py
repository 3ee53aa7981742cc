"""A result as a document: one composer for each kind of result."""
