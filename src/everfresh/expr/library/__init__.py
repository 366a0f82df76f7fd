"""The functions of scalar expressions, by subject, and what their rows of the table are made of."""
