"""Rules that call each other, such as those of a recursive JSON Schema, as automata over bytes.

nested_grammar       what comes in: trees that call each other, and strings that are known as automata
part, parts          one automaton over characters for everything that is called; those of many grammars are kept
tree_dfa             the automaton of one tree, before that
unfolding            calls and words that are written in place, because other text begins like them
overlaps             calls that begin with the same bracket, and words that are also called strings
token_limits         free text of a limited number of tokens
text_regions         free text as fragments, so that what tokens do in it is known
assembly, live       one automaton over bytes, in which names are written out, without what leads nowhere (instance_builder)
dfa                  all of that
"""
