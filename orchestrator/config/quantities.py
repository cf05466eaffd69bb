"""Quantities as people read them: counts with their noun, durations, sizes, energies, scores in points."""

from __future__ import annotations

HOUR = 3_600.0  # in seconds
POINTS = 100.0  # a score of 1 is 100 points


def amount(n: float, noun: str) -> str:
    """`1 trial`, `2,192 trials`, `0.5 points`."""
    return f"{n:{'g' if isinstance(n, float) else ','}} {noun}{'s' * (n != 1)}"


def gpus_in_words(n: float) -> str:
    """`1 GPU`, `0 GPUs`, `0.25 of a GPU`."""
    return amount(int(n), "GPU") if n == int(n) else f"{n:g} of a GPU"


def points(share: float, digits: int = 2) -> str:
    """A score between 0 and 1 in points: `67.24`."""
    return f"{POINTS * share:.{digits}f}"


def percent(share: float) -> str:
    """A share in percent: `52 %`, `1.3 %`."""
    return f"{100 * share:.{0 if abs(share) >= 0.1 else 1}f} %"


def duration(seconds: float) -> str:
    """`4.2 s`, `26 s`, `3 min 10 s`, `5 h 20 min`, `3 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    for size_s, unit, part_s, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        whole, rest = divmod(round(seconds / part_s) * part_s, size_s)
        if whole:
            return f"{whole:.0f} {unit} {rest / part_s:.0f} {part}"
    return "60 s"


def time_left(likely_s: float | None, most_s: float | None) -> str:
    """`12 min 5 s`, `12 min 5 s, at most 1 h 0 min` of a search, `at most 1 h 0 min`, or `unknown`."""
    likely, most = (None if seconds is None else duration(seconds) for seconds in (likely_s, most_s))
    is_probably_over = likely_s is not None and most_s is not None and likely_s < 1 <= most_s
    parts = [] if likely is None or is_probably_over else [likely]
    parts += [] if most in (None, likely) else [f"at most {most}"]
    return ", ".join(parts) or "unknown"


def size(n_bytes: float) -> str:
    """`820 MB`, `1.3 GB`."""
    for unit_bytes, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= unit_bytes:
            return f"{n_bytes / unit_bytes:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def energy(joules: float) -> str:
    """`430 J`, `1.2 kWh`; a kilowatt-hour is 3.6 MJ."""
    return f"{joules / 3.6e6:.3g} kWh" if joules >= 36_000 else f"{joules:.3g} J"
