"""Rows under compiled automata: which tokens are legal (masks) and the next state (steps), for batches that mix automata.

Each constraint takes a slot in the registry of its vocabulary; the state of a row is a slot and a state number.

compiled_language             what has a compiled language, and what is compiled from it together with other text
constraint                    the base class of all constraints
constraint_row, branching_row, host_rows    the executor on the host: a row as Python numbers; advance and mask for a batch
device_rows, positions        the executor in tensors: the same with kernels or tensor operations; where rows are
registry_tables, stack_tables, branching  the tensor operations, for rows without frames, with frames, and of several
                                          configurations
constraint_state, branching_state, automaton_state    states of rows: with a stack, with several configurations, with neither
remembering/                  rows, and their state, that remember the items of arrays (`uniqueItems`)
slot_generation               which automaton of a slot a state belongs to
single_row                    the row of an engine that runs one sequence
walk, completion              the row of one text, for searches and explanations; a shortest completion
automaton_registry, registry_layout, registry_user  the automata of one vocabulary, their tables on a device, and what has an
                                                    automaton among them
host_logits, tensor_logits    logits on the CPU as numpy arrays (HostAndDevice: the base of their processors), and as tensors
latest_tokens                 the last few tokens of each row
shared_passes                 neighbours that share passes over the logits where kernels run
row_mask, mask_cache          the mask of one visited state on the CPU, and a cache of limited size for them
logit_arrays                  views and fills of rows on the CPU; whether logits are broken, or fit the vocabulary
token_bits                    sets of tokens as bits, as the bitmasks of vLLM and XGrammar are
byte_form, examples           a constraint byte by byte, for explanations; matching texts and random ones
shared, automaton_files       automata compiled once per process, and shared with other processes in files
tracing                       support for torch.compile
"""
