"""Arrays and the loops over them: NumPy, PyTorch, BLAS threads, thin products in Numba and Triton."""
