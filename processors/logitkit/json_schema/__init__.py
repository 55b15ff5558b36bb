"""From JSON Schema to automata."""
