"""Raw files: where they lie, and readers of their formats."""
