"""Grammars as people write them, in GBNF and in Lark's syntax.

rule_set    what a reader returns: named rules, with their places in the text
"""
