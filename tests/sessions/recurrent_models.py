"""Small random transformers models with recurrent layers, and a greedy search that never uses a cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import transformers

EOS = 2
SIZES: dict[str, Any] = {
    "vocab_size": 1280, "hidden_size": 32, "num_hidden_layers": 2, "bos_token_id": 1, "eos_token_id": EOS, "pad_token_id": 0
}  # fmt: skip
ATTENTION: dict[str, Any] = {"intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
BOTH: dict[str, Any] = {**SIZES, **ATTENTION, "max_position_embeddings": 256}
HYBRID = ["linear_attention", "full_attention"]
MAMBA_2: dict[str, Any] = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 8}
LINEAR: dict[str, Any] = {
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 2
}  # fmt: skip
KIMI: dict[str, Any] = {
    **BOTH, "num_key_value_heads": 4, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "qk_nope_head_dim": 8,
    "linear_head_dim": 8, "linear_num_heads": 4, "mlp_layer_types": ["dense"] * 2,
}  # fmt: skip
CONFIGS: dict[str, Callable[[], Any]] = {
    "Mamba": lambda: transformers.MambaConfig(**SIZES, state_size=8),
    "Mamba2": lambda: transformers.Mamba2Config(
        **SIZES, state_size=8, head_dim=16, num_heads=4, n_groups=2, chunk_size=8
    ),
    "FalconMamba": lambda: transformers.FalconMambaConfig(**SIZES, state_size=8),
    "RWKV": lambda: transformers.RwkvConfig(**SIZES, attention_hidden_size=32, context_length=256),
    "xLSTM": lambda: transformers.xLSTMConfig(
        **{**SIZES, "hidden_size": 64}, num_heads=2, chunk_size=8, num_blocks=2, qk_dim_factor=1.0
    ),
    "RecurrentGemma": lambda: transformers.RecurrentGemmaConfig(
        **{**SIZES, "num_hidden_layers": 3}, **ATTENTION, attention_window_size=16, lru_width=32
    ),
    "Jamba": lambda: transformers.JambaConfig(
        **BOTH, num_experts=2, num_experts_per_tok=1, mamba_d_state=8, attn_layer_period=2, attn_layer_offset=1
    ),
    "Bamba": lambda: transformers.BambaConfig(**BOTH, **MAMBA_2, attn_layer_indices=[1]),
    "Zamba": lambda: transformers.ZambaConfig(
        **{**BOTH, "num_hidden_layers": 4}, attention_hidden_size=64, mamba_d_state=8, n_mamba_heads=2,
        layers_block_type=["linear_attention", "hybrid"] * 2,
    ),
    "Zamba2": lambda: transformers.Zamba2Config(  # type: ignore[call-arg]
        **BOTH, layers_block_type=["linear_attention", "hybrid"], adapter_rank=8, mamba_d_state=8, n_mamba_heads=4,
        mamba_headdim=16, mamba_ngroups=1, chunk_size=8,
    ),
    "FalconH1": lambda: transformers.FalconH1Config(**BOTH, **MAMBA_2, mamba_d_ssm=64, head_dim=8),  # type: ignore[call-arg]
    "GraniteMoeHybrid": lambda: transformers.GraniteMoeHybridConfig(
        **BOTH, **MAMBA_2, layer_types=["mamba", "attention"], num_local_experts=2, num_experts_per_tok=1,
        shared_intermediate_size=48,
    ),
    "NemotronH": lambda: transformers.NemotronHConfig(  # type: ignore[call-arg]
        **BOTH, hybrid_override_pattern="M*", mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=8, n_groups=2,
        chunk_size=8, head_dim=8,
    ),
    "LFM2": lambda: transformers.Lfm2Config(**BOTH, layer_types=["conv", "full_attention"]),
    "Qwen3Next": lambda: transformers.Qwen3NextConfig(
        **BOTH, **LINEAR, head_dim=8, layer_types=HYBRID, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    "OlmoHybrid": lambda: transformers.OlmoHybridConfig(**BOTH, **LINEAR, layer_types=HYBRID),
    "KimiLinear": lambda: transformers.KimiLinearConfig(**KIMI, layer_types=HYBRID),
}  # fmt: skip


@cache
def model(kind: str) -> Any:
    torch.manual_seed(0)
    made = transformers.AutoModelForCausalLM.from_config(CONFIGS[kind]()).eval()
    # Untrained weights hardly tell tokens apart.
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2)
    made.generation_config.eos_token_id = EOS
    return made


def greedy(kind: str, prompt: Sequence[int], count: int) -> list[int]:
    """Return the new tokens, EOS left out, of a search in which every pass begins with the first token."""
    ids = torch.tensor([list(prompt)])
    output = model(kind).generate(
        ids, attention_mask=torch.ones_like(ids), use_cache=False, do_sample=False, max_new_tokens=count
    )
    return [token for token in output[0, len(prompt) :].tolist() if token != EOS]
