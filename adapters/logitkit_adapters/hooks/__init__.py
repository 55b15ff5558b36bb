"""Code shared by the hooks of several engines.

engine_hook    the base class of hooks, which refuse other engines and bare processors before the first token
model_tokens   EOS ids and sizes from a model's configuration
known_prompt   warn of a generation whose prompt a hook takes for the output of an earlier one
recent         a cache with a memory limit
door           the processor of a hook, from a processor, a type, a schema, a language or tools
known_vocabularies    the vocabularies that have been read, each remembered as long as its tokenizer
"""

from logitkit_adapters.hooks.model_tokens import columns_of as columns_of
from logitkit_adapters.hooks.model_tokens import ends_of as ends_of

__all__ = ["columns_of", "ends_of"]
