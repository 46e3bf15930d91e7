"""The compiled hot loops, each beside the NumPy line it must equal. Importing this package does not import numba."""
