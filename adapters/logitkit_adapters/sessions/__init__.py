"""Sessions and generators: generations that reuse the cache of earlier ones, in every engine.

session            Session: independent calls that share prefixes (base_session, session_call, cached_sequences, row_writer)
generated          the rows that a session returns; end_of_row says why a row ended
generation_stream  the text of a generation in pieces (text_before_stop)
typed              generate_typed: a value of a type (typed_output, typed_results)
rows_together      the rows of a call that share batches
generator          continuous: batches of rows to continue (generator_options, initial_state, decoding, beam_search, written_rows,
                   rows_of_pads), or to read while they are generated (generation_stream)
particle_sampling  particles.sample: texts of a model given that they are in a language, with weights
text_probabilities the probability of each of several texts after a prompt
tracing            trace: an explanation of an output, with the probabilities of the model
text_model         the model as these three use it
engines            find the engine of a model; sequence and batch define what an engine must provide
batch_of_sequences an engine that runs the rows of a batch one at a time
array_caches       the base classes of engines whose caches are arrays of keys and values, with snapshots that share memory
prompts            parse the kinds of prompt that both accept; media_prompt is one with images
shared_model, likeliest        identity and locks of models, reusable sequences, greedy choice
sampling_options   options of the engines' own generate, refused with the processor to use
"""

from logitkit_adapters.sessions.engines import engine_of as engine_of
from logitkit_adapters.sessions.generated import Generated as Generated
from logitkit_adapters.sessions.generator import continuous as continuous
from logitkit_adapters.sessions.likeliest import likeliest as likeliest
from logitkit_adapters.sessions.likeliest import two_likeliest as two_likeliest
from logitkit_adapters.sessions.prompts import read_prompts as read_prompts
from logitkit_adapters.sessions.session import Session as Session
from logitkit_adapters.sessions.text_probabilities import probabilities as probabilities
from logitkit_adapters.sessions.tracing import trace as trace
from logitkit_adapters.sessions.typed import generate_typed as generate_typed
from logitkit_adapters.sessions.typed_output import TypedOutput as TypedOutput

__all__ = [
    "Generated",
    "Session",
    "TypedOutput",
    "continuous",
    "engine_of",
    "generate_typed",
    "likeliest",
    "probabilities",
    "read_prompts",
    "trace",
    "two_likeliest",
]
