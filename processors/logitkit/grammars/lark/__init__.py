"""Grammars in Lark's syntax.

attribute_reader  the attributes of a rule, as written
attributes    rules that end as soon as they can, or have a limited length
bodies        what stands after the colon of a definition
competition   which terminals may stand in the same place
continuations the texts that must not follow a terminal
differences   where Lark's lexers read a text in another way
draft         definitions that call each other
json_values   the JSON values of `%json`
lexeme        a terminal as an automaton whose ends forbid some texts after them
lexer         terminals as a lexer splits a text
literals      strings, ranges, regular expressions and special tokens as trees
lookaheads    lookaheads at the beginning of a terminal
measures      what the order of terminals depends on
nested        grammars inside of a grammar
numbers       rules with a number as parameter
parse         from tokens to definitions
precedence    which terminals a lexer prefers
read          from a grammar's text to its rules
templates     rules with parameters
terminals     from a terminal's definition to a tree without calls
tokens        from a text to tokens
"""

from __future__ import annotations

from logitkit.grammars.lark.read import LarkLexer, read_lark

__all__ = ["LarkLexer", "read_lark"]
