"""What many views over the same bases share: bit vectors of predicates, decomposed pre-aggregation.

Chapter 5.1 of the thesis on key-value views. Pure: nothing here reads or writes anything.
"""
