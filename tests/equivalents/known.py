"""The equivalent of each logits processor, sampler and stopping rule of the engines.

An update of an engine may add names; `test_page.py` says which ones are missing here. For each one, write down the equivalent,
with a test that compares the two, or the reason why there is none.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KNOWN", "Known", "Unrelated"]


class Known(NamedTuple):
    """A processor of an engine.

    Args:
        here: The equivalent here, as Markdown; empty if there is none.
        how: How equal they are; or why there is no equivalent.
        test: The test file that shows it, below tests/; empty if there is none.
    """

    here: str
    how: str
    test: str = ""


class Unrelated(NamedTuple):
    """A parameter of requests that changes neither logits nor the end of a text, or that belongs to another one.

    Args:
        why: The subject, for the page.
    """

    why: str


EQUAL = "equal bits in float32"
AS_TRANSFORMERS = "the same formula, compared with that of transformers: equal bits in float32"
LOGITS = "processors/test_sampling_as_transformers.py"
CUTS = "processors/test_truncations_as_transformers.py"
LENGTHS = "processors/test_lengths_and_prompts.py"
BY_ID = "processors/test_tokens_by_id.py"
COUNTED = "processors/test_llama_cpp_penalties.py"
REPEATED = "processors/test_repetition_penalty.py"
LLAMA = "processors/test_llama_cpp_samplers.py"
MLX = "equivalents/test_mlx_lm.py"
STOPS = "processors/test_stop_strings.py"
REASONING = "processors/test_thinking_budget.py"
OUTPUT = Unrelated("the content of the answer")
AUDIO = "a rule for the audio codebooks of one model, not for text"
GUIDED = "processors/test_guidance.py"
MARKS = "processors/test_watermarks_as_transformers.py"
OTHER_MARK = (
    "an option of SGLang's own. For watermarks here, see `KgwWatermark`, `SynthIdWatermark` and `GumbelWatermark`"
)
THROUGH_TIME = (
    "its state follows from the logits of earlier steps. logitkit computes states from tokens alone, so that beams, drafts and "
    "resumed texts are right; such a state could not be computed again"
)
CLOCK = "the wall clock decides, so a text that is generated again would end elsewhere; stop the engine instead"
DECIDES_BY_LOGITS = (
    "at the step where EOS or the trigger has the highest logit, it begins to force a phrase, and must remember that: its state "
    "follows from logits, which cannot be computed again from tokens"
)
FORCED_EOS = Known("`ForcedEos`", "ends with EOS as the last token, in place of a cut", "processors/test_forced_eos.py")
NO_REPEAT = "processors/test_no_repeat_ngram.py"
TRUNCATION_OF_SUM = "equal, except for tokens at the threshold, because sums have 64 bits"

TRANSFORMERS: dict[str, Known | Unrelated] = {
    "MinLengthLogitsProcessor": Known("`MinLength`", "equal bits, but padding does not count", LENGTHS),
    "MinNewTokensLengthLogitsProcessor": Known("`MinNewTokens`", EQUAL, BY_ID),
    "TemperatureLogitsWarper": Known("`Temperature`", EQUAL, LOGITS),
    "RepetitionPenaltyLogitsProcessor": Known("`RepetitionPenalty`", EQUAL, REPEATED),
    "EncoderRepetitionPenaltyLogitsProcessor": Known("`EncoderRepetitionPenalty`", EQUAL, LENGTHS),
    "TopPLogitsWarper": Known("`TopP`", "equal bits, except which of several tied tokens are cut", LOGITS),
    "TopKLogitsWarper": Known("`TopK`", EQUAL, LOGITS),
    "TopHLogitsWarper": Known("`TopH`", f"{TRUNCATION_OF_SUM}, and which of several tied tokens are cut", CUTS),
    "MinPLogitsWarper": Known("`MinP`", EQUAL, LOGITS),
    "TypicalLogitsWarper": Known("`TypicalP`", "equal bits, with the entropy summed in 64 bits", LOGITS),
    "EpsilonLogitsWarper": Known("`EpsilonCutoff`", EQUAL, CUTS),
    "EtaLogitsWarper": Known("`EtaCutoff`", TRUNCATION_OF_SUM, CUTS),
    "NoRepeatNGramLogitsProcessor": Known("`NoRepeatNGram`", EQUAL, NO_REPEAT),
    "EncoderNoRepeatNGramLogitsProcessor": Known("`EncoderNoRepeatNGram`", EQUAL, LENGTHS),
    "SequenceBiasLogitsProcessor": Known("`SequenceBias`", EQUAL, "processors/test_sequence_bias.py"),
    "NoBadWordsLogitsProcessor": Known(
        "`BannedStrings`", "bans texts in every tokenization, not sequences of ids", "processors/test_banned_strings.py"
    ),
    "PrefixConstrainedLogitsProcessor": Known(
        "`Dfa`, any other constraint, or [your own](own-processors.md)",
        "the same masks, by an automaton in place of a function",
        "processors/test_dfa.py",
    ),
    "ForcedBOSTokenLogitsProcessor": Known(
        "`ForcedTokens`", "equal, for any number of tokens; the token keeps its logit", BY_ID
    ),
    "ForcedEOSTokenLogitsProcessor": Known(
        "`ForcedEos`", "the same token, which keeps its logit", "processors/test_forced_eos.py"
    ),
    "InfNanRemoveLogitsProcessor": Known(
        "", "NaN and +inf from a model are an error here, `BrokenLogits`, which names the row and the step"
    ),
    "ExponentialDecayLengthPenalty": Known("`LengthDecay`", "equal bits, but finite logits stay finite", LENGTHS),
    "LogitNormalization": Known(
        "", "changes no probability; beams that need it have `renormalize_logits` of `generate`"
    ),
    "SuppressTokensAtBeginLogitsProcessor": Known("`SuppressAtBegin`", EQUAL, LENGTHS),
    "SuppressTokensLogitsProcessor": Known("`BanTokens`", EQUAL, BY_ID),
    "WhisperTimeStampLogitsProcessor": Known("", "the timestamps of one speech model"),
    "WhisperNoSpeechDetection": Known("", "runs a speech model, and changes no logit"),
    "ClassifierFreeGuidanceLogitsProcessor": Known(
        "`Guidance`", "the same probabilities, within a part of 1e-4; the second pass is not part of the batch", GUIDED
    ),
    "AlternatingCodebooksLogitsProcessor": Known("", AUDIO),
    "UnbatchedClassifierFreeGuidanceLogitsProcessor": Known(
        "`Guidance`",
        "within 1e-4, or a part of 1e-5, of each logit; [its second pass](transformers.md#classifier-free-guidance) writes the "
        "same tokens, and follows beams too",
        GUIDED,
    ),
    "BarkEosPrioritizerLogitsProcessor": Known("", AUDIO),
    "WatermarkLogitsProcessor": Known(
        "`KgwWatermark`", 'equal bits, with `scheme="lefthash"` or `"selfhash"`, to transformers on the CPU', MARKS
    ),
    "SynthIDTextWatermarkLogitsProcessor": Known(
        "`SynthIdWatermark`", "probabilities within 2e-6, because sums have 64 bits; -inf stays -inf", MARKS
    ),
    "DiaClassifierFreeGuidanceLogitsProcessor": Known("", AUDIO),
    "DiaEOSChannelFilterLogitsProcessor": Known("", AUDIO),
    "DiaEOSDelayPatternLogitsProcessor": Known("", AUDIO),
    "MaxLengthCriteria": Known(
        "`ForcedEos`", "ends with EOS as the last token, in place of a cut", "processors/test_forced_eos.py"
    ),
    "MaxTimeCriteria": Known("", CLOCK),
    "StopStringCriteria": Known("`StopStrings`", "the same stops, as texts in any tokenization", STOPS),
    "EosTokenCriteria": Known("", "the engine's own; all its EOS ids are those of the `Vocabulary`"),
    "ConfidenceCriteria": Known("", "ends the drafts of an assistant, not a text"),
}

VLLM: dict[str, Known | Unrelated] = {
    "MinPLogitsProcessor": Unrelated("`min_p`"),
    "LogitBiasLogitsProcessor": Unrelated("`logit_bias`"),
    "MinTokensLogitsProcessor": Unrelated("`min_tokens`"),
    "n": Unrelated("how many texts"),
    "presence_penalty": Known(
        "`PresencePenalty`", "the same formula, compared with that of llama.cpp: equal bits", COUNTED
    ),
    "frequency_penalty": Known(
        "`FrequencyPenalty`", "the same formula, compared with that of llama.cpp: equal bits", COUNTED
    ),
    "repetition_penalty": Known("`RepetitionPenalty`", AS_TRANSFORMERS, REPEATED),
    "temperature": Known("`Temperature`", AS_TRANSFORMERS, LOGITS),
    "watermarking": Known(
        "`GumbelWatermark`",
        "the same method as vLLM's default algorithm, with other random numbers: each needs its own detector",
        "processors/test_watermarks.py",
    ),
    "top_p": Known("`TopP`", AS_TRANSFORMERS, LOGITS),
    "top_k": Known("`TopK`", AS_TRANSFORMERS, LOGITS),
    "min_p": Known("`MinP`", AS_TRANSFORMERS, LOGITS),
    "seed": Unrelated("the random draw"),
    "stop": Known("`StopStrings`", "the same stops, as texts in any tokenization", STOPS),
    "stop_token_ids": Known("`StopStrings`, with ids", "the same stops", STOPS),
    "ignore_eos": Known("`BanTokens`, with the EOS ids", "EOS is forbidden, not ignored", BY_ID),
    "max_tokens": Known(
        "`ForcedEos`", "ends with EOS as the last token, in place of a cut", "processors/test_forced_eos.py"
    ),
    "min_tokens": Known("`MinNewTokens`", AS_TRANSFORMERS, BY_ID),
    **dict.fromkeys(("logprobs", "prompt_logprobs", "prompt_logprob_token_ids", "prompt_logprob_start"), OUTPUT),
    **dict.fromkeys(("logprob_token_ids", "flat_logprobs", "detokenize", "skip_special_tokens"), OUTPUT),
    **dict.fromkeys(("spaces_between_special_tokens", "include_stop_str_in_output", "output_kind"), OUTPUT),
    **dict.fromkeys(("stream_interval", "output_text_buffer_length", "routed_experts_prompt_start"), OUTPUT),
    **dict.fromkeys(("trace_decode_token_ids",), OUTPUT),
    **dict.fromkeys(("skip_clone", "skip_reading_prefix_cache"), Unrelated("how the request is run")),
    "extra_args": Unrelated("arguments of plugins, such as the configuration of logitkit"),
    "structured_outputs": Unrelated("`json` and the others below it"),
    "logit_bias": Known("`LogitBias`", "the same formula", BY_ID),
    "allowed_token_ids": Known("`AllowTokens`", "the same masks", BY_ID),
    "bad_words": Known("`BannedStrings`", "bans them in every tokenization", "processors/test_banned_strings.py"),
    "thinking_token_budget": Known("`ThinkingBudget`", "the same budget, also with a message and a grace", REASONING),
    "repetition_detection": Known("`LoopStop`", "the same verdicts", "processors/test_loop_meaning.py"),
    "json": Known("`JsonSchema`", "exact, or refused", "json_schema/test_generated.py"),
    "regex": Known("`Regex`", "as `re.fullmatch`", "processors/test_regex.py"),
    "choice": Known("`Choice`", "the same texts", "processors/test_choice.py"),
    "grammar": Known("`Grammar`", "GBNF or Lark", "grammars/test_branching.py"),
    "json_object": Known('`JsonSchema({"type": "object"}, ...)`', "any object", "json_schema/test_generated.py"),
    **dict.fromkeys(
        ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern"), Unrelated("parts of `json`")
    ),
    "structural_tag": Known("`from_structural_tag`", "XGrammar's own tests", "structural_tags/test_documents.py"),
    **dict.fromkeys(("beam_width", "length_penalty"), Unrelated("the search, not logits")),
}

MLX_LM: dict[str, Known | Unrelated] = {
    "make_sampler": Unrelated("makes one of the samplers below it"),
    "greedy_sampler": Known("`Temperature(0)`", "the same token", LLAMA),
    "apply_top_k": Known("`TopK`", "equal bits where no token ties with the last one; ours keeps all that do", MLX),
    "apply_min_p": Known("`MinP`", "equal bits, except for tokens at the threshold", MLX),
    "apply_top_p": Known("`TopP`", "equal bits, except for tokens at the threshold", MLX),
    "apply_xtc": Known(
        "`Xtc`", "the same tokens whenever it removes any, in its float32; the random numbers differ", MLX
    ),
    "categorical_sampling": Known("`Temperature`", "the draw itself is the engine's", LOGITS),
    "make_repetition_penalty": Known("`RepetitionPenalty(p, window=20)`", EQUAL, MLX),
    "make_presence_penalty": Known("`PresencePenalty(p, window=20, include_prompt=True)`", EQUAL, MLX),
    "make_frequency_penalty": Known(
        "`FrequencyPenalty(p, window=20, include_prompt=True)`", "within 1e-5, as mlx-lm subtracts once per token", MLX
    ),
    "logit_bias_processor": Known("`LogitBias`", EQUAL, MLX),
    "make_stop_sequences": Known("`StopStrings`", "the same stops, as texts in any tokenization", STOPS),
}

LLAMA_CPP: dict[str, Known | Unrelated] = {
    "greedy": Known("`Temperature(0)`", "the same token", LLAMA),
    "dist": Unrelated("the random draw"),
    "top_k": Known("`TopK`", AS_TRANSFORMERS, LOGITS),
    "top_p": Known("`TopP`", AS_TRANSFORMERS, LOGITS),
    "min_p": Known("`MinP`", "equal bits, except for tokens within rounding of the threshold", LLAMA),
    "typical": Known("`TypicalP`", AS_TRANSFORMERS, LOGITS),
    "temp": Known("`Temperature`", EQUAL, LLAMA),
    "temp_ext": Known("`DynamicTemperature`", "within a part of 1e-4 of each logit", "processors/test_reshaping.py"),
    "xtc": Known("`Xtc`", "the same tokens whenever it removes any; the random numbers differ", LLAMA),
    "top_n_sigma": Known("`TopNSigma`", TRUNCATION_OF_SUM, LLAMA),
    "mirostat": Known("", THROUGH_TIME),
    "mirostat_v2": Known("", THROUGH_TIME),
    "grammar": Known("`Grammar`", "the same texts, over generated grammars", "grammars/test_branching.py"),
    "grammar_lazy": Unrelated("the old name of `grammar_lazy_patterns`"),
    "grammar_lazy_patterns": Known(
        "[`languages.dispatch`](languages.md)", "text is free up to a trigger", "languages/test_masks.py"
    ),
    "penalties": Known(
        "`RepetitionPenalty`, `FrequencyPenalty`, `PresencePenalty`",
        "equal bits of the last two; the first is compared with that of transformers",
        COUNTED,
    ),
    "dry": Known("`Dry`", "equal with breakers of one character", "processors/test_dry.py"),
    "adaptive_p": Known("", THROUGH_TIME),
    "logit_bias": Known("`LogitBias`", "the same formula", BY_ID),
    "infill": Known("", "joins tokens that are prefixes of others, and ends the text, for one way to complete code"),
    "MinTokensLogitsProcessor": Known("`MinNewTokens`", AS_TRANSFORMERS, BY_ID),
}

SGLANG: dict[str, Known | Unrelated] = {
    "DisallowedTokensLogitsProcessor": Known("`BanTokens`", AS_TRANSFORMERS, BY_ID),
    "ThinkingBudgetLogitProcessor": Known(
        "`ThinkingBudget`", "the same budget; a line break before the end marker is `message`", REASONING
    ),
    **dict.fromkeys(
        (
            "Glm4MoeThinkingBudgetLogitProcessor",
            "Qwen3ThinkingBudgetLogitProcessor",
            "DeepSeekR1ThinkingBudgetLogitProcessor",
            "InklingThinkingBudgetLogitProcessor",
        ),
        Known("`ThinkingBudget`", "the same budget, for any model: the marker is a text, not an id", REASONING),
    ),
    "DeepseekOCRNoRepeatNGramLogitProcessor": Known(
        "`NoRepeatNGram(n, window)`",
        "the same bans, without a list of tokens that may repeat",
        NO_REPEAT,
    ),
    **dict.fromkeys(
        (
            "BatchedFrequencyPenalizer",
            "BatchedMinNewTokensPenalizer",
            "BatchedPresencePenalizer",
            "BatchedRepetitionPenalizer",
        ),
        Unrelated("the penalty of this name"),
    ),
    "max_new_tokens": VLLM["max_tokens"],
    "stop": VLLM["stop"],
    "stop_token_ids": VLLM["stop_token_ids"],
    "stop_regex": Known(
        "`StopStrings`, with `re.compile(...)`", "the match that ends first", "processors/test_stop_patterns.py"
    ),
    **{name: VLLM[name] for name in ("temperature", "top_p", "top_k", "min_p")},
    **{name: VLLM[name] for name in ("frequency_penalty", "presence_penalty", "repetition_penalty")},
    "min_new_tokens": VLLM["min_tokens"],
    "n": VLLM["n"],
    "beam_width": VLLM["beam_width"],
    "json_schema": VLLM["json"],
    "regex": VLLM["regex"],
    "ebnf": Known("`Grammar`", "in GBNF, which is close to XGrammar's EBNF", "grammars/test_branching.py"),
    "structural_tag": VLLM["structural_tag"],
    "ignore_eos": VLLM["ignore_eos"],
    **dict.fromkeys(
        ("skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim", "stream_interval"), OUTPUT
    ),
    "logit_bias": VLLM["logit_bias"],
    "sampling_seed": VLLM["seed"],
    "custom_params": Unrelated("arguments of the user's own processor"),
    "watermark": Known("", OTHER_MARK),
    **dict.fromkeys(
        (
            "stop_strs",
            "stop_regex_strs",
            "stop_str_max_len",
            "stop_regex_max_len",
            "is_normalized",
            "ebnf_full_assistant",
        ),
        Unrelated("filled in by the server"),
    ),
}

ZOO: dict[str, Known | Unrelated] = {
    "CiteFromPromptLogitsProcessor": Known(
        "`CiteFromPrompt`", "equal to a plain loop of its formula", "processors/test_zoo.py"
    ),
    "GenLengthLogitsProcessor": Known(
        "`LengthControl`", "equal to its formula, term by term", "processors/test_zoo.py"
    ),
    "ForceLastPhraseLogitsProcessor": Known("", DECIDES_BY_LOGITS),
    "MaxTimeLogitsProcessor": Known("", CLOCK),
    "MultipleChoiceLogitsProcessor": Known(
        "`Choice`", "the same choices, without a bonus for the first words of the answers", "processors/test_choice.py"
    ),
    "PreventHallucinationLogitsProcessor": Known("", THROUGH_TIME),
    "TriggerPhraseLogitsProcessor": Known("", DECIDES_BY_LOGITS),
}

KNOWN: dict[str, dict[str, Known | Unrelated]] = {
    "transformers": TRANSFORMERS,
    "vLLM": VLLM,
    "mlx-lm": MLX_LM,
    "llama.cpp": LLAMA_CPP,
    "SGLang": SGLANG,
    "logits-processor-zoo": ZOO,
}
