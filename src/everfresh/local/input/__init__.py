"""Rows on their way in: from what a user gives to words of a table."""
