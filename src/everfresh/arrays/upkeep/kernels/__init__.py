"""Loops over pairs, view chunks and scores, compiled."""
