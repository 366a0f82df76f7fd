"""Compiled loops of the planner, each with a plain twin in `plain` that the tests hold it to."""
