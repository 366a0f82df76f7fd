"""Functions of lists, structs and maps beyond their parts, and those that take a lambda."""
