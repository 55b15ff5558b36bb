"""Where a text ends: stops as text or token ids, found whatever the tokenisation."""
