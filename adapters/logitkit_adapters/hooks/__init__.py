"""Code shared by the hooks of several engines.

engine_hook    the base class of hooks, which refuse other engines and bare processors before the first token
model_tokens   EOS ids and sizes from a model's configuration
recent         a cache with a memory limit
"""

from logitkit_adapters.hooks.model_tokens import columns_of as columns_of
from logitkit_adapters.hooks.model_tokens import ends_of as ends_of

__all__ = ["columns_of", "ends_of"]
