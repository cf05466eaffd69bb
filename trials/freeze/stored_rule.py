"""Rules that froze layers while a trial trained, in stores of earlier versions: removed, so they are only shown."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

ADAPTIVE = "adaptive"  # the strategy of a setting that has a rule

_USUAL: dict[str, dict[str, float]] = {
    "gradient_norm": {"intervals": 10, "percentile": 50},
    "plasticity": {"intervals": 20, "window": 3, "tolerance": 0.2, "patience": 2},
}


class StoredRule(BaseModel):
    """A rule: its name and its parameters, which are part of the identity of its trial."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: str

    @property
    def label(self) -> str:
        """`gradient norm`; with the parameters that were not the default, `gradient norm, percentile 75`."""
        usual = _USUAL.get(self.name, {})
        own = {key: value for key, value in (self.model_extra or {}).items() if usual.get(key) != value}
        return ", ".join([self.name.replace("_", " "), *(f"{key} {_in_label(value)}" for key, value in own.items())])


def _in_label(value: object) -> str:
    if isinstance(value, list):
        return "-".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
