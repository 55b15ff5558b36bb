"""A generation that continues another, and keeps its cache."""

from logitkit_adapters.sessions.generator import continuous as continuous
from logitkit_adapters.sessions.session import Session as Session

__all__ = ["Session", "continuous"]
