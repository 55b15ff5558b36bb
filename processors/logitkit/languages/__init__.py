"""Languages: what may be written, defined without a vocabulary, so that one definition serves several models.

texts, free_text   fixed texts, patterns and special tokens; free text up to a marker
any_tokens         one token, whatever its text is
schemas            JSON values by schema, whose errors name their place
grammars           context-free grammars
json_strings       JSON strings whose value is a text of a grammar, or JSON again
xml_arguments      the members of an object between tags (xml_members: their syntax tree; xml_tags, value_ends, raw_strings)
nested_xml         the same with tags in tags, as Cohere's models write
cdata              strings that are written in CDATA sections where they contain markup
keyword_arguments  the members of an object as Python writes arguments with names
text_fragments     raw text between tags as a fragment (limited_items: strings of which lines or words are limited)
combined           one after another, one of several, repetition, tags
dispatching        free text in which triggers start tags
language           the base class
language_writer    from a language to the nested grammar that the compiler takes (language_symbols: its special tokens)
size               bounds on the parts that a language is built from
described          the base class of constraints that are described otherwise, and compiled from a language
constraint         the constraint that a language becomes for one vocabulary
"""

from logitkit.languages.any_tokens import any_token as any_token
from logitkit.languages.combined import either as either
from logitkit.languages.combined import optional as optional
from logitkit.languages.combined import repeat as repeat
from logitkit.languages.combined import sequence as sequence
from logitkit.languages.combined import tag as tag
from logitkit.languages.constraint import LanguageConstraint as LanguageConstraint
from logitkit.languages.dispatching import dispatch as dispatch
from logitkit.languages.free_text import any_text as any_text
from logitkit.languages.grammars import grammar as grammar
from logitkit.languages.language import Language as Language
from logitkit.languages.schemas import json_schema as json_schema
from logitkit.languages.texts import choice as choice
from logitkit.languages.texts import literal as literal
from logitkit.languages.texts import regex as regex
from logitkit.languages.texts import special as special
from logitkit.languages.xml_arguments import xml_arguments as xml_arguments

__all__ = [
    "Language",
    "LanguageConstraint",
    "any_text",
    "any_token",
    "choice",
    "dispatch",
    "either",
    "grammar",
    "json_schema",
    "literal",
    "optional",
    "regex",
    "repeat",
    "sequence",
    "special",
    "tag",
    "xml_arguments",
]
