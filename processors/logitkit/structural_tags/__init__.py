"""Structural tags, the JSON form in which XGrammar, vLLM and SGLang take free text with tags in it."""
