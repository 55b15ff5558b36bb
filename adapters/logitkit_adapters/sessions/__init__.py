"""Sessions and generators: generations that reuse the cache of earlier ones, in every engine.

session            Session: independent calls that share prefixes (base_session, generated, cached_sequences, row_writer)
generator          continuous: batches of rows to continue (initial_state, decoding, beam_search, written_rows, rows_of_pads)
engines            find the engine of a model; sequence and batch define what an engine must provide
batch_of_sequences an engine that runs the rows of a batch one at a time
array_caches       the base classes of engines whose caches are arrays of keys and values, with snapshots that share memory
prompts            parse the kinds of prompt that both accept
checksum, shared_model, ready_sequences, likeliest    identity and locks of models, reusable sequences, greedy choice
"""

from logitkit_adapters.sessions.engines import engine_of as engine_of
from logitkit_adapters.sessions.generated import Generated as Generated
from logitkit_adapters.sessions.generator import continuous as continuous
from logitkit_adapters.sessions.likeliest import likeliest as likeliest
from logitkit_adapters.sessions.likeliest import two_likeliest as two_likeliest
from logitkit_adapters.sessions.prompts import read_prompts as read_prompts
from logitkit_adapters.sessions.session import Session as Session

__all__ = ["Generated", "Session", "continuous", "engine_of", "likeliest", "read_prompts", "two_likeliest"]
