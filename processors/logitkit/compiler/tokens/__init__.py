"""Automata over the tokens of a vocabulary: the last step of the compiler.

compile, grammar_tokens      from an automaton over bytes to one over tokens; the same if it looks at a byte before it reads it
tables       the result: tables by state and class of tokens, and what stands beside a state
effects      what a token does in each state: classes of tokens, and effects on the stack
fragments    the effects of tokens in fragments, which many places share
linking      automata put together from parts that are compiled already
markers      any text before a marker
records      a record that is repeated many times
completion   states that cannot end, and the number of tokens to an end

There are four ways from bytes to tokens. The last column compares the next simpler way on the same languages: its milliseconds
for those of this way, with a vocabulary of 131,072 tokens, on one thread.

way                 languages that need it              the next simpler way
token_classes       patterns, choices, bans, stop       each state by itself: 64 for 2.0 (median of the suite), 10,399 for 24
                    strings; string fragments; text     (the worst)
                    before a marker
suffix_columns      grammars; patterns whose            token_classes cannot follow a stack. With an instance for each call: 693
                    characters are called; lists of     for 224, 48 MB for 0.6 MB (an address in Unicode); impossible for what
                    lists                               nests without limit
linked_classes      schemas, and languages with values  suffix_columns: 10 for 7 (median of JSONSchemaBench), 271 for 22 (95th
                    of JSON                             percentile), 2.7 times the bytes; 2 of 34 not done
token_concatenation `then`                              the bytes of both parts, by suffix_columns: 8.2 for 0.8, or 21.6 for 0.8
                                                        and 24 times the bytes (strings of 100 characters)

All else builds tables from tables: `intersection` two automata at once, `layers` a layer for each token of a limited text, and
`repeated_record` the instances of a record. It asks `token_classes` about the first instance only: all instances together would
take 36 instead of 20 (GSM8K), and 9.0 instead of 4.3 (2,000 characters).
"""
