"""Kernels of Triton, which do on a GPU in one launch what takes many tensor operations. The operations define the results.

switch, kernel            where kernels run; a kernel, compiled for few variants and started with little work for the host
language                  Triton's language, or stand-ins where Triton is not installed
records, codes            the tables of a registry as a kernel reads them; numbers in them that stand for a choice
automaton, masking        functions of kernels: where tokens lead a row, and which are legal; a row of logits is masked
parts                     how many programs mask each row of logits
constraint_step           a step of rows under constraints
branching_step            the same for rows that may be in several places of an automaton at once
stop_step, thinking_step  a step of rows that search for stops, and of rows with a thinking budget
row_sums                  what a truncation needs to know of whole rows: the best score, and the sum of all probabilities
joined_lists              biases, bans and penalties that follow one another, together with the search for the best score
stages                    neighbouring processors of whole rows, which share passes: Temperature and truncations
first_pass                the first pass of a processor, done in the last launch of the one before
truncation_step           TopK, TopP and TypicalP, without sorting
digits, truncation_rules  the digits of keys, which find a cut; the keys and the limits of each truncation
share_step                MinP and TopA
temperature_step          Temperature
listed_step               biases, bans, and penalties on tokens that have occurred
repeat_step               NoRepeatNGram and Dry
memory_step               a token is added to what rows remember, for penalties

Only code that runs on a device may import the modules with kernels, because they import Triton.
"""
