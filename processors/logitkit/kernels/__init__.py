"""Kernels of Triton, which do on a GPU in one launch what takes many tensor operations. The operations define the results.

switch, kernel            where kernels run; a kernel, compiled for few variants and started with little work for the host
language                  Triton's language, or stand-ins where Triton is not installed
records, codes            the tables of a registry as a kernel reads them; numbers in them that stand for a choice
automaton, masking        functions of kernels: where tokens lead a row, and which are legal; a row of logits is masked
parts                     how many programs mask each row of logits
constraint_step           a step of rows under constraints
branching_step            the same for rows that may be in several places of an automaton at once
stop_step, thinking_step  a step of rows that search for stops, and of rows with a thinking budget

Only code that runs on a device may import the modules with kernels, because they import Triton.
"""
