"""Functions of texts beyond their parts: other forms of them, how alike two are, and values in a pattern."""
