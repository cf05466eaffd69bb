"""The rules of pydantic in our words, so that no message of a file or option is in a library's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_WHOLE, _RULE_NUMBER, _TEXT = "must be a whole number", "must be a number", "must be text; write it in quotes"
_LIST, _MAPPING = "must be a list", "must be a mapping of keys to values"

# By pydantic's type of error; the places are filled from the error's context.
RULES: Mapping[str, str] = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dataclass_type": "must be {class_name}",
    "dict_type": _MAPPING,
    "extra_forbidden": "is not a known key. Remove it",
    "finite_number": "must be a finite number",
    "float_parsing": _RULE_NUMBER,
    "float_type": _RULE_NUMBER,
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "must be a whole number of at most 64 bits",
    "int_type": _WHOLE,
    "invalid_key": "has a key that is no word",
    "is_instance_of": "must be {class}",
    "json_invalid": "is not JSON ({error})",
    "json_type": "is not JSON",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": _LIST,
    "literal_error": "must be {expected}",
    "mapping_type": _MAPPING,
    "missing": "is missing. Add it",
    "model_attributes_type": _MAPPING,
    "model_type": _MAPPING,
    "none_required": "must be empty",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": _TEXT,
    "string_unicode": "must be Unicode text",
    "too_long": "must have at most {max_length} values, not {actual_length}",
    "too_short": "must have at least {min_length} values, not {actual_length}",
    "tuple_type": _LIST,
}
_OURS = ("value_error", "assertion_error")  # raised by our own validators, with our own words
_ONE = re.compile(r"(?<= 1 )(character|value)s")


def rule_of(error: Mapping[str, Any]) -> str:
    """What a value must be, as part of a sentence, for an entry of `pydantic.ValidationError.errors()`."""
    context = {k: f"{v:g}" if isinstance(v, float) else v for k, v in error.get("ctx", {}).items()}
    if error["type"] in _OURS:
        return str(context["error"])
    rule = RULES.get(error["type"], "is not valid here")
    return _ONE.sub(r"\1", rule.format(**context) if "{" in rule else rule)


def join_rules(rules: Iterable[str]) -> str:
    """Alternative rules in one phrase: `must be a number or 'packed'`."""
    first, *others = dict.fromkeys(rule.removesuffix("; write it in quotes") for rule in rules)
    return " or ".join([first, *(rule.removeprefix("must be ") for rule in others)])
