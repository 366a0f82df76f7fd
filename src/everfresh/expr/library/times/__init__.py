"""Times as texts and from texts by a format, and times made of numbers."""
