"""Tool calls: whole turns of a model in the format that it was trained on."""
