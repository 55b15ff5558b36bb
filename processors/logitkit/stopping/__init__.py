"""Stop strings: end a row when its text contains one of them.

stop_strings    StopStrings
text_stream     TextStream: text piece by piece, which holds back the possible beginning of a stop
stop_pattern    a stop that is a pattern
stop_automaton, stop_registry  find all stops in one pass; many lists of stops in one batch
stop_state, stop_mask                the state of rows; the tokens that end them
"""

from logitkit.stopping.stop_automaton import StopAutomaton as StopAutomaton
from logitkit.stopping.stop_registry import stop_registry as stop_registry

__all__ = ["StopAutomaton", "stop_registry"]
