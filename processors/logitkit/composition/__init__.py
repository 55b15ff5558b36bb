"""Run several processors as one, and end rows.

chain            chain and Chain: run processors in order; neighbouring constraints are intersected
conflicts        find the rows in which the constraints of a chain contradict each other
empty_rows       end rows without a token with EOS, or raise an error that names the processor
ends             distinguish EOS that end a row from EOS that are forced as text
engine_ends      check that a processor knows every EOS of the engine
engine_tokens    check that a processor was built for the tokens of the engine
engine_logits    EngineLogits: run a processor on an engine's logits
cut_off          find rows that end because of bans before the processor
finished_rows    mark rows as finished that ended without an EOS, such as padding rows
"""

from logitkit.composition.chain import Chain as Chain
from logitkit.composition.chain import chain as chain
from logitkit.composition.engine_logits import EngineLogits as EngineLogits

__all__ = ["Chain", "EngineLogits", "chain"]
