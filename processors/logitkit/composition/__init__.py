"""Several processors as one, and rows that end.

chain            chain and Chain: run processors in order; neighbouring constraints are intersected
conflicts        which rows the constraints of a chain leave no token
empty_rows       a row without a token ends with EOS, or the processor at fault is named
ends             which EOS end a row, and which are only forced text
engine_ends      whether a processor knows every EOS of the engine
engine_logits    an engine's logits through a processor, without NaN and gradients
finished_rows    the states of rows that ended without an EOS, such as padding rows
"""

from logitkit.composition.chain import Chain as Chain
from logitkit.composition.chain import chain as chain
from logitkit.composition.engine_logits import EngineLogits as EngineLogits

__all__ = ["Chain", "EngineLogits", "chain"]
