"""Processors over token ids: no text is involved.

allow, ban, bias, forced, forced_eos, min_new    AllowTokens, BanTokens, LogitBias, ForcedTokens, ForcedEos, MinNewTokens
id_lists                                         lists of ids per row, checked and applied
"""
