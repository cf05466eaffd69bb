"""A manifest against a CustomResourceDefinition, more strictly than the API server, which drops unknown fields."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[3] / "shared" / "schemas"
FILES = {"RayCluster": "ray.io_rayclusters.yaml", "RayJob": "ray.io_rayjobs.yaml"}
# The API server checks these itself, so definitions leave them open.
_METADATA = {"name", "namespace", "labels", "annotations"}
Schema = dict[str, Any]


@cache
def schema_of(kind: str, served: str) -> Schema:
    """The openAPIV3Schema of a kind in a version that is served."""
    # The definitions have megabytes, which the loader written in Python takes a minute for.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition = yaml.load((SCHEMAS / FILES[kind]).read_text(encoding="utf-8"), Loader=loader)
    found = next(one for one in definition["spec"]["versions"] if one["name"] == served and one["served"])
    schema: Schema = found["schema"]["openAPIV3Schema"]
    return schema


@cache
def _validator_of(kind: str, served: str) -> Draft202012Validator:
    return Draft202012Validator(_as_json(schema_of(kind, served)))


def problems(manifest: dict[str, Any]) -> list[str]:
    """All that is wrong: wrong types and values, what is missing, and fields that nobody knows."""
    group, _, served = manifest["apiVersion"].partition("/")
    if group != "ray.io":
        return [f"apiVersion: {group} is not KubeRay's"]
    checked = _validator_of(manifest["kind"], served)
    wrong = [f"{error.json_path}: {error.message}" for error in checked.iter_errors(manifest)]
    rest = {name: part for name, part in manifest.items() if name != "metadata"}
    unknown_fields = _unknown(rest, schema_of(manifest["kind"], served), "$")
    named = [f"$.metadata.{name}: unknown field" for name in manifest["metadata"] if name not in _METADATA]
    return [*wrong, *unknown_fields, *named]


def _as_json(schema: Any) -> Any:
    """The schema in words that JSON Schema knows: Kubernetes' integers or strings, and what may be null."""
    if isinstance(schema, list):
        return [_as_json(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _as_json(part) for name, part in schema.items()}
    if schema.get("x-kubernetes-int-or-string") is True:
        found["type"] = ["integer", "string"]
    if schema.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _unknown(value: Any, schema: Schema, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, part in enumerate(value):
            yield from _unknown(part, schema.get("items", {}), f"{place}[{number}]")
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, part in value.items():
        if name in known:
            yield from _unknown(part, known[name], f"{place}.{name}")
        elif isinstance(others, dict):
            yield from _unknown(part, others, f"{place}.{name}")
        elif not others and schema.get("type") == "object":
            yield f"{place}.{name}: unknown field"


def with_defaults(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest as the API server stores it: the definition's defaults where nothing is said."""
    served = manifest["apiVersion"].partition("/")[2]
    filled: dict[str, Any] = _filled(manifest, schema_of(manifest["kind"], served))
    return filled


def _filled(value: Any, schema: Schema) -> Any:
    if isinstance(value, list):
        return [_filled(part, schema.get("items", {})) for part in value]
    if not isinstance(value, dict):
        return value
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    absent = {name: part["default"] for name, part in known.items() if "default" in part and name not in value}
    rest = others if isinstance(others, dict) else {}
    return {name: _filled(part, known.get(name, rest)) for name, part in {**value, **absent}.items()}
