"""Linear algebra programs: nodes, text, tracing, iterative models, dimensions, and what each stage may
contain.
"""
