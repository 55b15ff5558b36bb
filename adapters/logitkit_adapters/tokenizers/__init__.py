"""The bytes of every token of a tokenizer, read from its vocabulary pieces, never from decoded text.

recovery        vocabulary: detect the kind of tokenizer, read it and verify the result
tokenizers_backend, byte_ranks, sentencepiece_model    one kind of tokenizer each
decoder_chain                   turn pieces into bytes
verification    compare the bytes with the tokenizer's own decoder and encoder
reading         the result of reading a tokenizer, and the error if it cannot be read
"""

from logitkit_adapters.tokenizers.decoder_chain import DecoderChain as DecoderChain
from logitkit_adapters.tokenizers.recovery import model_vocabulary as model_vocabulary
from logitkit_adapters.tokenizers.recovery import vocabulary as vocabulary

__all__ = ["DecoderChain", "model_vocabulary", "vocabulary"]
