"""The tokens of a tokenizer as data: the bytes that each id adds to the text, and which ids are special.

Adapters build a `Vocabulary`; every processor that works with text takes one.

vocabulary       Vocabulary, with its EOS and padding ids
special_tokens   the special tokens that a text names, and the warning about unknown names
text_with_names  a text with names of special tokens in it, and all ways to write it
marker           a marker in the text: a string, or one token id
marker_symbol    the symbols that a marker is written in: bytes and token ids, as numbers
trie, ranges     all prefixes of all tokens, as arrays, which the compiler walks
shapes           what is left of tokens for patterns that do not tell letters apart
token_suffixes   what tokens say after quotes and closing brackets
"""

from logitkit.vocabulary.marker import Marker as Marker
from logitkit.vocabulary.special_tokens import UnknownSpecialTokenWarning as UnknownSpecialTokenWarning
from logitkit.vocabulary.vocabulary import Vocabulary as Vocabulary

__all__ = ["Marker", "UnknownSpecialTokenWarning", "Vocabulary"]
