"""One module a container of numbers, each with `to_torch(array, *, writing)` and `from_torch(tensor, like)`.

Both say whether they copied. `to_torch` keeps the shape; where `writing` is meant, it copies whatever must not be written to.
"""
