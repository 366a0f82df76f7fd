"""What generated code works on and calls: addresses, layouts, helpers, ordered indexes; building and
running it.
"""
