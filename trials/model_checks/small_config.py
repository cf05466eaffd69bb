"""A small configuration of an architecture: two layers, two attention heads, a short vocabulary.

The size of a head stays, because rotary angles, relative positions and the like depend on it; widths shrink as the
number of heads does. Where that breaks a relation that this module does not know, the widths can stay as well.
"""

from __future__ import annotations

from typing import Any

LAYERS = 2
HEADS = 2
EXPERTS = 16
VOCABULARY = 64
_LAYERS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")
_HEADS = ("num_attention_heads", "n_heads", "n_head", "num_heads")
_KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads")
_WIDTHS = ("hidden_size", "d_model", "dim", "n_embd", "emb_dim")
_INNER_WIDTHS = ("intermediate_size", "d_ff", "dff", "hidden_dim", "n_inner", "moe_intermediate_size")
_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")


def small_config(config: Any, *, narrow: bool) -> Any:
    """A copy of a configuration of `transformers` with few layers, few experts and a short vocabulary.

    Args:
        config: The configuration, which is not changed.
        narrow: Whether its layers have two heads and a width to match, rather than their own width.

    Raises:
        Exception: whatever the configuration's class raises if the entries do not go together.
    """
    entries: dict[str, Any] = config.to_dict()
    entries.pop("model_type", None)
    _shorten(entries)
    if narrow:
        _narrow(entries)
    return type(config)(**entries)


def _shorten(entries: dict[str, Any]) -> None:
    n_layers = _first(entries, _LAYERS)
    for key, value in entries.items():
        if key in _LAYERS and _is_number(value):
            entries[key] = min(value, LAYERS)
        elif isinstance(value, list) and n_layers > LAYERS and len(value) == n_layers:  # one entry a layer
            entries[key] = value[:LAYERS]
        elif key in _EXPERTS and _is_number(value):
            entries[key] = min(value, EXPERTS)
        elif key.endswith("vocab_size") and _is_number(value):
            entries[key] = min(value, VOCABULARY)
        elif key.endswith("token_id") and _is_number(value) and value >= VOCABULARY:
            entries[key] = 1 if key == "pad_token_id" else 0


def _narrow(entries: dict[str, Any]) -> None:
    width, n_heads = _first(entries, _WIDTHS), _first(entries, _HEADS)
    head_width = _first(entries, ("head_dim",)) or width // max(n_heads, 1)
    if n_heads <= HEADS or not head_width:
        return
    for key, value in entries.items():
        if key in _HEADS and value == n_heads:
            entries[key] = HEADS
        elif key in _KEY_VALUE_HEADS and _is_number(value):
            entries[key] = HEADS if value == n_heads else 1
        elif key in _INNER_WIDTHS and _is_number(value):
            entries[key] = max(value * HEADS // n_heads // 16 * 16, 16)
        elif _is_number(value) and value == width and "position" not in key:
            entries[key] = head_width * HEADS


def _first(entries: dict[str, Any], keys: tuple[str, ...]) -> int:
    return next((entries[key] for key in keys if _is_number(entries.get(key))), 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
