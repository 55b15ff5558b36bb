"""Code shared by the adapters of mlx-lm and mlx-vlm; it imports neither of the two engines.

hook                 the base class of their hooks
caller, beginning    the calling function's variables, and checks of the tokens that it hides
sequence, batch      session support: one sequence with its cache, and several rows together
weights              the identity of a model
"""
