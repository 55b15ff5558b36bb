"""Grammars as people write them, in GBNF and in Lark's syntax.

captures        the texts of the rules that a grammar captures
chart           which rules read which part of a text, for explanations and captures
checks          rules that are missing, that never end, or that nothing uses
dialects        recognition of another notation
gbnf            the reader of GBNF
gbnf_arguments  the arguments of XGrammar's macros
gbnf_attributes  attributes of rules, such as `name[lazy]`
gbnf_bodies     what stands after `::=`
gbnf_macros     XGrammar's macros, such as `Regex("...")`
gbnf_terminals  its strings, classes and special tokens
lark            the reader of Lark's syntax
named           grammars that others refer to by name
output_text     an output as characters and special tokens
rule_positions  the characters and calls of a rule, and which follow each other
read            the reader for a syntax that the caller names
rule_set        what a reader returns: named rules, with their places in the text
substrings      the parts of a text, for `%regex` and `Substring(...)`
"""
