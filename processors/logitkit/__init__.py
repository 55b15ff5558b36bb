"""Logits processors, written once over torch and used unchanged in every engine.

Public names are imported from the modules that define them when they are first used, so that a program loads what it needs.
"""

import typing

from logitkit.public_names import MODULES, OF_ADAPTERS

if typing.TYPE_CHECKING:
    from logitkit import particles as particles
    from logitkit import training as training
    from logitkit import watermarks as watermarks
    from logitkit.composition.chain import Chain as Chain
    from logitkit.composition.chain import chain as chain
    from logitkit.configuration.reading import from_config as from_config
    from logitkit.configuration.registration import register as register
    from logitkit.configuration.writing import config_schema as config_schema
    from logitkit.configuration.writing import to_config as to_config
    from logitkit.conformance.check import check_processor as check_processor
    from logitkit.constraints.banned_strings import BannedStrings as BannedStrings
    from logitkit.constraints.choice import Choice as Choice
    from logitkit.constraints.dfa import Dfa as Dfa
    from logitkit.constraints.forced_prefix import ForcedPrefix as ForcedPrefix
    from logitkit.constraints.grammar import Grammar as Grammar
    from logitkit.constraints.healing import heal_prompt as heal_prompt
    from logitkit.constraints.intersection import Intersection as Intersection
    from logitkit.constraints.json_schema import JsonSchema as JsonSchema
    from logitkit.constraints.regex import Regex as Regex
    from logitkit.constraints.then import Then as Then
    from logitkit.constraints.then import then as then
    from logitkit.explaining.explain import explain as explain
    from logitkit.limits import Limits as Limits
    from logitkit.penalties.counted import FrequencyPenalty as FrequencyPenalty
    from logitkit.penalties.counted import PresencePenalty as PresencePenalty
    from logitkit.penalties.dry import Dry as Dry
    from logitkit.penalties.encoder_no_repeat_ngram import EncoderNoRepeatNGram as EncoderNoRepeatNGram
    from logitkit.penalties.encoder_repetition import EncoderRepetitionPenalty as EncoderRepetitionPenalty
    from logitkit.penalties.no_repeat_ngram import NoRepeatNGram as NoRepeatNGram
    from logitkit.penalties.repetition import RepetitionPenalty as RepetitionPenalty
    from logitkit.protocol.calls import check_tokens as check_tokens
    from logitkit.protocol.calls import count_tokens as count_tokens
    from logitkit.protocol.calls import own_rows as own_rows
    from logitkit.protocol.calls import token_columns as token_columns
    from logitkit.protocol.context import Context as Context
    from logitkit.protocol.context import concatenate_context as concatenate_context
    from logitkit.protocol.context import select_context as select_context
    from logitkit.protocol.processor import Processor as Processor
    from logitkit.protocol.processor import Role as Role
    from logitkit.protocol.state import Fill as Fill
    from logitkit.protocol.state import concatenate as concatenate
    from logitkit.protocol.state import select as select
    from logitkit.protocol.state import to as to
    from logitkit.protocol.stateless import Stateless as Stateless
    from logitkit.reasoning.loop_stop import LoopStop as LoopStop
    from logitkit.reasoning.thinking_budget import ThinkingBudget as ThinkingBudget
    from logitkit.sampling.dynamic_temperature import DynamicTemperature as DynamicTemperature
    from logitkit.sampling.epsilon_cutoff import EpsilonCutoff as EpsilonCutoff
    from logitkit.sampling.eta_cutoff import EtaCutoff as EtaCutoff
    from logitkit.sampling.guidance import Guidance as Guidance
    from logitkit.sampling.min_p import MinP as MinP
    from logitkit.sampling.p_less import PLess as PLess
    from logitkit.sampling.quadratic_smoothing import QuadraticSmoothing as QuadraticSmoothing
    from logitkit.sampling.tail_free import TailFree as TailFree
    from logitkit.sampling.temperature import Temperature as Temperature
    from logitkit.sampling.top_a import TopA as TopA
    from logitkit.sampling.top_h import TopH as TopH
    from logitkit.sampling.top_k import TopK as TopK
    from logitkit.sampling.top_n_sigma import TopNSigma as TopNSigma
    from logitkit.sampling.top_p import TopP as TopP
    from logitkit.sampling.typical_p import TypicalP as TypicalP
    from logitkit.sampling.xtc import Xtc as Xtc
    from logitkit.saving.state_file import load_state as load_state
    from logitkit.saving.state_file import save_state as save_state
    from logitkit.sessions.forced_run import forced_run as forced_run
    from logitkit.sessions.reuse import Reuse as Reuse
    from logitkit.sessions.reuse import plan_reuse as plan_reuse
    from logitkit.sessions.sequence_state import SequenceState as SequenceState
    from logitkit.stopping.stop_strings import StopStrings as StopStrings
    from logitkit.stopping.text_stream import TextStream as TextStream
    from logitkit.structural_tags.structural_tag import StructuralTag as StructuralTag
    from logitkit.structural_tags.structural_tag import from_structural_tag as from_structural_tag
    from logitkit.tokens.allow import AllowTokens as AllowTokens
    from logitkit.tokens.ban import BanTokens as BanTokens
    from logitkit.tokens.bias import LogitBias as LogitBias
    from logitkit.tokens.cite_from_prompt import CiteFromPrompt as CiteFromPrompt
    from logitkit.tokens.forced import ForcedTokens as ForcedTokens
    from logitkit.tokens.forced_eos import ForcedEos as ForcedEos
    from logitkit.tokens.length_control import LengthControl as LengthControl
    from logitkit.tokens.length_decay import LengthDecay as LengthDecay
    from logitkit.tokens.min_length import MinLength as MinLength
    from logitkit.tokens.min_new import MinNewTokens as MinNewTokens
    from logitkit.tokens.sequence_bias import SequenceBias as SequenceBias
    from logitkit.tokens.suppress_at_begin import SuppressAtBegin as SuppressAtBegin
    from logitkit.tools.formats.tool_format import ToolFormat as ToolFormat
    from logitkit.tools.tools import Tools as Tools
    from logitkit.tools.turn import ToolCall as ToolCall
    from logitkit.vocabulary.special_tokens import UnknownSpecialTokenWarning as UnknownSpecialTokenWarning
    from logitkit.vocabulary.vocabulary import Vocabulary as Vocabulary
    from logitkit.watermarks.gumbel import GumbelWatermark as GumbelWatermark
    from logitkit.watermarks.kgw import KgwWatermark as KgwWatermark
    from logitkit.watermarks.synthid import SynthIdWatermark as SynthIdWatermark

__version__ = "0.3.0"

__all__ = [
    "AllowTokens",
    "BanTokens",
    "BannedStrings",
    "Chain",
    "Choice",
    "CiteFromPrompt",
    "Context",
    "Dfa",
    "Dry",
    "DynamicTemperature",
    "EncoderNoRepeatNGram",
    "EncoderRepetitionPenalty",
    "EpsilonCutoff",
    "EtaCutoff",
    "Fill",
    "ForcedEos",
    "ForcedPrefix",
    "ForcedTokens",
    "FrequencyPenalty",
    "Grammar",
    "Guidance",
    "GumbelWatermark",
    "Intersection",
    "JsonSchema",
    "KgwWatermark",
    "LengthControl",
    "LengthDecay",
    "Limits",
    "LogitBias",
    "LoopStop",
    "MinLength",
    "MinNewTokens",
    "MinP",
    "NoRepeatNGram",
    "PLess",
    "PresencePenalty",
    "Processor",
    "QuadraticSmoothing",
    "Regex",
    "RepetitionPenalty",
    "Reuse",
    "Role",
    "SequenceBias",
    "SequenceState",
    "Stateless",
    "StopStrings",
    "StructuralTag",
    "SuppressAtBegin",
    "SynthIdWatermark",
    "TailFree",
    "Temperature",
    "TextStream",
    "Then",
    "ThinkingBudget",
    "ToolCall",
    "ToolFormat",
    "Tools",
    "TopA",
    "TopH",
    "TopK",
    "TopNSigma",
    "TopP",
    "TypicalP",
    "UnknownSpecialTokenWarning",
    "Vocabulary",
    "Xtc",
    "chain",
    "check_processor",
    "check_tokens",
    "concatenate",
    "concatenate_context",
    "config_schema",
    "count_tokens",
    "explain",
    "forced_run",
    "from_config",
    "from_structural_tag",
    "heal_prompt",
    "load_state",
    "own_rows",
    "plan_reuse",
    "register",
    "save_state",
    "select",
    "select_context",
    "then",
    "to",
    "to_config",
    "token_columns",
]


# With it, a type checker would allow any name.
if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return a public name, or a submodule, which is imported now."""
        from importlib import import_module
        from importlib.util import find_spec

        if name in MODULES:
            found = getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
            globals()[name] = found
            return found
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        where = ""
        if name in OF_ADAPTERS:
            where = (
                f"; it is in the package of each engine: from logitkit_adapters.transformers import {name}, or from "
                "logitkit_adapters.mlx_lm, logitkit_adapters.mlx_vlm, logitkit_adapters.llama_cpp or logitkit_adapters.vllm"
            )
        raise AttributeError(f"module 'logitkit' has no attribute {name!r}{where}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
