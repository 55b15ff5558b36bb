"""Automata over the tokens of a vocabulary: the last step of the compiler.

compile         from an automaton over bytes to one over tokens
limited_rules   rules of a grammar that a limited number of tokens may write
grammar_tokens  the same for an automaton that may look at a byte before it reads it
tables          the result: where each class of tokens leads from each state, and stacks and counts beside states
effects         the effect of each token in each state: classes of tokens, and actions on the stack
fragments       the effects of tokens in fragments, which many places share
linking         automata that are put together from compiled parts
markers         any text before a marker
records         a record that is repeated many times
completion      states that cannot reach the end, and the number of tokens to the end

There are four ways from bytes to tokens. The last column says why the next simpler way does not do: its milliseconds for the same
languages, and then those of this way ("64 for 2.0"), with a vocabulary of 131,072 tokens, on one thread.

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

The other files build tables from tables. `intersection` follows two automata at once, and `layers` adds a layer for each token of
a limited text. `repeated_record` finds the classes of tokens in the first copy of a record, and copies its rows. With all copies
at once, it would take 36 instead of 20 ms (GSM8K), and 9.0 instead of 4.3 ms (2,000 characters).
"""
