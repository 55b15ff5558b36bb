"""Grammars as people write them, in GBNF and in Lark's syntax.

checks          rules that are missing, that never end, or that nothing uses
dialects        recognition of another notation
gbnf            the reader of GBNF
gbnf_arguments  the arguments of XGrammar's macros
gbnf_bodies     what stands after `::=`
gbnf_macros     XGrammar's macros, such as `Regex("...")`
gbnf_terminals  its strings, classes and special tokens
lark            the reader of Lark's syntax
read            the reader for a syntax that the caller names
rule_set        what a reader returns: named rules, with their places in the text
substrings      the parts of a text, for `%regex` and `Substring(...)`
"""
