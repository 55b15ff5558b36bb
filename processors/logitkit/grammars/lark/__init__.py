"""Grammars in Lark's syntax.

advice        what regular expressions allow beyond ASCII
bodies        what stands after the colon of a definition
common        the terminals of `%import common.NAME`
competition   which terminals may stand in the same place
draft         definitions that call each other
json_values   the JSON values of `%json`
lexeme        a terminal as an automaton whose ends forbid some next characters
literals      strings, ranges, regular expressions and special tokens as trees
longest       terminals as a lexer splits a text
parse         from tokens to definitions
read          from a grammar's text to its rules
terminals     from a terminal's definition to a tree without calls
token_reader  a place in the tokens of a grammar
tokens        from a text to tokens
trees         walks over trees
"""

from __future__ import annotations

from logitkit.grammars.lark.read import read_lark

__all__ = ["read_lark"]
