"""Penalties on tokens that have occurred already.

repetition, counted          by how often a token occurred: RepetitionPenalty, FrequencyPenalty and PresencePenalty
encoder_repetition           the same for tokens of the prompt: EncoderRepetitionPenalty
no_repeat_ngram, dry         by the sequence that a token would repeat: NoRepeatNGram and Dry
encoder_no_repeat_ngram      by sequences of the prompt: EncoderNoRepeatNGram
token_counts                 the distinct tokens of each row, and how often each occurred
token_history, repeats       the tokens of each row, and where the last ones occurred before
breakers                     where the last breaker of Dry is
breaker_tables               the tables that breakers are looked up in
"""
