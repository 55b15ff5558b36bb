"""Logits processors, written once over torch and used unchanged in every engine."""

from logitkit.chain import Chain as Chain
from logitkit.chain import chain as chain
from logitkit.context import Context as Context
from logitkit.context import concatenate_context as concatenate_context
from logitkit.context import select_context as select_context
from logitkit.processor import Processor as Processor
from logitkit.processor import Stateless as Stateless
from logitkit.state import Fill as Fill
from logitkit.state import concatenate as concatenate
from logitkit.state import select as select
from logitkit.state import to as to
from logitkit.vocabulary import Vocabulary as Vocabulary

__version__ = "0.1.0"

__all__ = [
    "Chain",
    "Context",
    "Fill",
    "Processor",
    "Stateless",
    "Vocabulary",
    "chain",
    "concatenate",
    "concatenate_context",
    "select",
    "select_context",
    "to",
]
