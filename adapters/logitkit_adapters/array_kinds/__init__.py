"""One module a container of numbers, each with `to_torch(array, *, writing)` and `from_torch(tensor, like)`.

`to_torch` returns a tensor of the same shape, whether it is a copy, and the array of this container on whose memory it lies, or
None; where `writing` is meant, it copies whatever must not be written to. `from_torch` says whether it copied.
"""
