"""Logical plans: what a bound query means; their text, and what is done to them before they are lowered."""
