"""Training with the processors that sampled: the log-probabilities of the distribution from which tokens were drawn.

Input: the processor, prompts, sampled tokens, and the logits of the model that is trained. Output: log-probabilities that can be
differentiated, the tokens that were forced, and the mass that constraints kept.

replay           the public function and its result
rollouts         its arguments, checked: the rows of each processor
token_lines      prompts and outputs without padding
state_blocks     the states of all steps, many steps as one batch
block_room       tensors as large as a block, which all blocks share
block_pass       a block of logits through the processors, and its gradient back
log_sums         the logarithm of the sum of exponentials of each row
few_legal        sums and gradients of rows in which few tokens are legal
constraint_run   the mass that neighbouring constraints keep
derivatives      how processed logits depend on given ones, by role and kind
differentiable   the passes as one function of torch
kept_sets        sets of tokens as bits, and the mass of a set
kept_record      the sets that a hook kept, by the tokens before each step
faults           errors that name the row, the step, the token, and the processor that forbids it
"""

from logitkit.training.kept_sets import kept as kept
from logitkit.training.kept_sets import log_mass as log_mass
from logitkit.training.replay import Replayed as Replayed
from logitkit.training.replay import replay as replay

__all__ = ["Replayed", "kept", "log_mass", "replay"]
