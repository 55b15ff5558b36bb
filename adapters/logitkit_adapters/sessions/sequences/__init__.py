"""One sequence in one engine: what a session needs of transformers, mlx-lm and llama.cpp."""

from logitkit_adapters.sessions.sequences.protocol import (
    CachedSequence,
    FilingEngine,
    SavedSequence,
    SequenceEngine,
    engine_of,
)

__all__ = ["CachedSequence", "FilingEngine", "SavedSequence", "SequenceEngine", "engine_of"]
