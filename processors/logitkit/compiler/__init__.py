"""From a syntax tree to a small table over tokens.

`logitkit.patterns` parses a pattern; the result here is a `TokenAutomaton`, run by `logitkit.runtime`.

characters/      automata over characters: positions, subset construction, minimization, lookarounds
bytes/           automata over bytes: UTF-8, concatenation, search for texts
tokens/          automata over tokens: token classes, dead ends, intersection, stacks
language         from a pattern to an automaton over bytes
nested_grammars/  the same for rules that call each other, such as a recursive JSON Schema
grammars/        the same for the rules of a context-free grammar
text_language    sets of texts with their operations, for JSON Schema; listed_texts where these are few
bounded_cache    a cache that is bounded in bytes
collection       pauses cyclic garbage collection while automata are built
"""

from logitkit.compiler.bytes.byte_dfa import DEAD as DEAD
from logitkit.compiler.bytes.byte_dfa import FINISHED as FINISHED
from logitkit.compiler.bytes.byte_dfa import FIRST_STATE as FIRST_STATE
from logitkit.compiler.bytes.byte_dfa import ByteDfa as ByteDfa
from logitkit.compiler.bytes.byte_intersection import intersect_bytes as intersect_bytes
from logitkit.compiler.bytes.concatenation import after_text as after_text
from logitkit.compiler.bytes.concatenation import anything as anything
from logitkit.compiler.bytes.concatenation import trimmed as trimmed
from logitkit.compiler.bytes.concatenation import until_marker as until_marker
from logitkit.compiler.bytes.folded_occurrences import folded_occurrences as folded_occurrences
from logitkit.compiler.bytes.nested_dfa import NestedDfa as NestedDfa
from logitkit.compiler.bytes.occurrences import Occurrences as Occurrences
from logitkit.compiler.bytes.word_list import texts_of as texts_of
from logitkit.compiler.bytes.word_list import word_list_dfa as word_list_dfa
from logitkit.compiler.characters.alphabet import Alphabet as Alphabet
from logitkit.compiler.characters.components import components as components
from logitkit.compiler.characters.counted import is_counted as is_counted
from logitkit.compiler.characters.minimise import minimise as minimise
from logitkit.compiler.characters.subset import SymbolDfa as SymbolDfa
from logitkit.compiler.collection import gc_paused as gc_paused
from logitkit.compiler.language import byte_dfa_of as byte_dfa_of
from logitkit.compiler.language import pattern_dfa as pattern_dfa
from logitkit.compiler.nested_grammars.dfa import nested_grammar_dfa as nested_grammar_dfa
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar as NestedGrammar
from logitkit.compiler.nested_grammars.nested_grammar import NestedRule as NestedRule
from logitkit.compiler.text_language import TextLanguage as TextLanguage
from logitkit.compiler.tokens.compile import token_automaton as token_automaton
from logitkit.compiler.tokens.linking.intersection import intersect as intersect
from logitkit.compiler.tokens.linking.token_concatenation import until_token as until_token
from logitkit.compiler.tokens.pushdown_compile import pushdown_automaton as pushdown_automaton
from logitkit.compiler.tokens.records.repeated_record import record_automaton as record_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton as TokenAutomaton
from logitkit.compiler.tokens.tables.token_table import STAY as STAY

__all__ = [
    "DEAD",
    "FINISHED",
    "FIRST_STATE",
    "STAY",
    "Alphabet",
    "ByteDfa",
    "NestedDfa",
    "NestedGrammar",
    "NestedRule",
    "Occurrences",
    "SymbolDfa",
    "TextLanguage",
    "TokenAutomaton",
    "after_text",
    "anything",
    "byte_dfa_of",
    "components",
    "folded_occurrences",
    "gc_paused",
    "intersect",
    "intersect_bytes",
    "is_counted",
    "minimise",
    "nested_grammar_dfa",
    "pattern_dfa",
    "pushdown_automaton",
    "record_automaton",
    "texts_of",
    "token_automaton",
    "trimmed",
    "until_marker",
    "until_token",
    "word_list_dfa",
]
