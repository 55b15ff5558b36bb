"""Processors over token ids: no text is involved.

allow, ban, bias, forced, forced_eos, min_new    AllowTokens, BanTokens, LogitBias, ForcedTokens, ForcedEos, MinNewTokens
min_length, suppress_at_begin, sequence_bias     MinLength, SuppressAtBegin, SequenceBias
length_decay, length_control                     LengthDecay, LengthControl
cite_from_prompt                                 CiteFromPrompt
raised                                           an amount added to some tokens of each row
tokenizations                                    all ways to write a text with whole tokens
id_lists                                         lists of ids per row, checked and applied
"""
