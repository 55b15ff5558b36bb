"""Rules that call each other, such as those of a recursive JSON Schema, as automata over bytes.

The files in the order in which a grammar passes through them:

nested_grammar       the input: trees that call each other, and sets of strings whose automata are known
tree_dfa             one tree as an automaton over characters and symbols for calls, words and special tokens
unfolding            calls and words that are written in place, because other text begins like them
overlaps             calls that begin with the same bracket, and words that are also called strings
part, parts          the result for one rule, or for the rules that one bracket calls; that of a named rule is kept
words                words written out as bytes
instance_builder     the instances of fragments, which are copied or called
assembly             all parts as one automaton over bytes
live                 the same without the states that lead nowhere
token_limits         free text of a limited number of tokens
text_regions         free text as fragments, so that the effects of tokens in it are known
remembered_arrays    arrays whose items must differ: the labels that say where they begin
dfa                  all these steps, one after another
"""
