"""Matrix views at work: stored matrices with pending factors, updates of all kinds, drift, resizing."""
