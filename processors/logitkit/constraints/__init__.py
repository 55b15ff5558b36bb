"""Constraints: the new text must be one of a language's texts.

Each is a frozen dataclass over a compiled automaton; `logitkit.runtime` masks and steps its rows.

regex, choice, dfa, json_schema     languages given as a pattern, a list of texts, a table over token ids, a schema
banned_strings, forced_prefix       texts that must not occur; a text that must come first (healing: token healing)
then, then_nested, intersection     one language after another; several at once
texts                               checks of texts that a caller gives
"""
