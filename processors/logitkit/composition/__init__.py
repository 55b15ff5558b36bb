"""Run several processors as one, and end rows.

chain            chain and Chain: run processors in order; neighbouring constraints are intersected
conflicts        find the rows in which the constraints of a chain contradict each other
bitmasks         the tokens that a chain of constraints leaves, as bits
empty_rows       end rows without a token with EOS, or raise an error that names the processor
ends             distinguish EOS that end a row from EOS that are forced as text
engine_vocabulary    check that a processor was built for the tokens of the engine, and knows every EOS of it
engine_logits    EngineLogits: run a processor on an engine's logits
finished_rows    mark rows as finished that ended without an EOS, such as padding rows
"""

from logitkit.composition.chain import Chain as Chain
from logitkit.composition.chain import chain as chain
from logitkit.composition.engine_logits import EngineLogits as EngineLogits

__all__ = ["Chain", "EngineLogits", "chain"]
