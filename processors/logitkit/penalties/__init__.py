"""Penalties on tokens that have occurred already.

repetition, counted          by how often a token occurred: RepetitionPenalty, FrequencyPenalty and PresencePenalty
no_repeat_ngram, dry         by the sequence that a token would repeat: NoRepeatNGram and Dry
token_counts                 the distinct tokens of each row, and how often each occurred
token_history, repeats       the tokens of each row, and where the last ones occurred before
breakers                     where the last breaker of Dry is
breaker_tables               the tables that breakers are looked up in
"""
