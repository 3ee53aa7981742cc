"""A document as text, Markdown, LaTeX or HTML."""
