"""From a syntax tree to a table over tokens.

    syntax tree --positions--> NFA --subset, minimise--> character DFA --utf8--> byte DFA --token classes--> TokenAutomaton

Characters stand for classes of code points that the pattern does not tell apart (`alphabet`), so the expensive steps see a few
symbols and not 256 bytes or a million code points.
"""
