"""The bytes of every token of a tokenizer, read from its pieces and never from decoded text."""

from logitkit_adapters.tokenizer_bytes.recovery import vocabulary as vocabulary

__all__ = ["vocabulary"]
