"""Constraints: the output must be a text of a language.

Each one is a frozen dataclass with a compiled automaton; `logitkit.runtime` masks and advances its rows.

regex, choice, dfa, json_schema     languages given as a pattern, a list of texts, a table over token ids, a schema
grammar                             languages given as a context-free grammar
grammar_report                      the size of a compiled grammar
banned_strings, banned_sequences    texts, or sequences of token ids, that must not occur
forced_prefix                       a text that must come first (healing: token healing)
then, intersection                  one language after another; several at once
texts                               checks of texts that a caller passes
"""
