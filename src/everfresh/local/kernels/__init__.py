"""The compiled loops of the in-process engine, by what they work on, and (`plain`) their twins over whole
arrays.

Kernels raise nothing, take arrays and numbers only, and never run out of room. Numba is reached through
`everfresh.local.jit` alone, so that all of this loads without it.
"""
