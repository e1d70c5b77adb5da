"""How fast: the only package that knows numba, BLAS threads and chunk sizes."""
