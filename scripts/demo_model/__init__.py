"""The text, the tokenizer and the training of the small model that ships with logitkit."""
