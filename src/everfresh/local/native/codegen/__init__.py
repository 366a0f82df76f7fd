"""The text of compiled triggers: statements, scalar expressions, ranges and relations as source code."""
