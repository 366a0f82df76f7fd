"""Distributed programs as values: tags, placement, transformers, rules, blocks (chapter 5), their text and
spec.
"""
