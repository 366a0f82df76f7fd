"""The compiled loops of shared maintenance: rows into cells, cells to views. Constants are arguments, so all
views of all templates run the same code."""
