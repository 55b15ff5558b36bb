"""The page of equivalents: every logits processor, sampler and stopping rule of the engines, and what does the same here.

engine_names     the names that an engine has, read from its source without importing it
known            the equivalent of each name, or why there is none
page             the page that is written of both: python -m tests.equivalents.page
"""
