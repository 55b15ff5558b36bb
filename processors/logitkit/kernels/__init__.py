"""Kernels of Triton, which do on a GPU in one launch what takes many tensor operations. The operations define the results.

records                   the tables of a bank as a kernel reads them
"""
