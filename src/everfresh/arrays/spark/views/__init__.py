"""Views of arrays on Spark: their groups and cells are chunks in the workers' units, like those of arrays.

stages      what tasks do: send, join, take
steps       what the driver tells them, and what it hears
domain      arrays and their views by name, what the driver knows of them, and their epochs
"""
