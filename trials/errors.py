"""Errors that a user or the environment can cause, each with the exit code of the command line."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from trials.escaping import escape_line

MAX_QUOTED = 40  # characters of a file's content in a message
LONGEST_LINE = 2_000  # characters per line of a message
MOST_OPTIONS = 3  # that a message offers
_COLUMNS = ("words", "tags", "text", "pair", "label")
LONGEST_REASON = 160  # characters that a message quotes of a library's error


class PermafrostError(Exception):
    """Base of every error a user can cause. `exit_code` is public: see docs/pages/reference/exit-codes.md.

    The message has one line per problem and is safe for a terminal: text from files and servers cannot break lines or
    send control sequences.
    """

    exit_code = 70

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(map(one_line, problems)))


class ConfigError(PermafrostError):
    """A sweep, trial or option that is invalid; `problems` holds everything that is wrong.

    `exit_code` is 2, or 3 if the only problem is a file that is absent or broken.
    """

    def __init__(self, problems: str | Iterable[str], *, exit_code: int = 2) -> None:
        lines = problems.split("\n") if isinstance(problems, str) else problems
        self.problems = tuple(map(one_line, lines))
        self.exit_code = exit_code
        super().__init__(*self.problems)


class UnclearError(ConfigError):
    """A corpus that can be read in several ways, or in none that is known.

    Attributes:
        options: Options of a command that read it, each tried: a mapping from an option's name to its value.
    """

    def __init__(self, question: str, options: Iterable[Mapping[str, object]] = ()) -> None:
        self.options = tuple(options)
        words = [option_words(option) for option in self.options[:MOST_OPTIONS]]
        super().__init__(
            f"{question} Read are {', or '.join(words)}{_in_file(self.options[0])}." if words else question
        )


def option_words(option: Mapping[str, object]) -> str:
    """Options as words of a command."""
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in option.items())


def _in_file(option: Mapping[str, object]) -> str:
    """Columns as a sweep file has them."""
    columns = {{"words": "tokens"}.get(key, key): value for key, value in option.items() if key in _COLUMNS}
    listed = ", ".join(f"{key}: {value}" for key, value in columns.items() if value != "none")
    return f" (in a sweep file `columns: {{{listed}}}`)" if listed else ""


class DataError(PermafrostError):
    """A corpus that is absent, broken, or not the planned one."""

    exit_code = 3


class NoDevSplitError(DataError):
    """A corpus without a dev split; a share of train may serve as one."""


class ModelError(PermafrostError):
    """A model folder that is absent, broken, or of an unsupported architecture."""

    exit_code = 3


class StoreError(PermafrostError):
    """A results store that cannot be read, was not written by this program, or by a newer version of it."""

    exit_code = 3


class DivergedError(PermafrostError):
    """The training loss is no longer finite; the records until then are valid."""


class CheckpointError(PermafrostError):
    """A checkpoint that does not fit its trial."""


class PreemptedError(PermafrostError):
    """The process was asked to stop; a checkpoint was saved, and the trial resumes elsewhere."""


def one_line(text: str) -> str:
    """The text on one line, shortened if too long, with unprintable characters escaped."""
    if not text.isprintable():
        lines = [line.strip() for line in text.splitlines()]
        text = " ".join(line for line in lines if line)
        text = escape_line(text)
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE // 2]} [...] {text[-LONGEST_LINE // 3 :]}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be allocated, by Python, a library, the system or a GPU. Also true if
    it was raised from such an error or while one was handled, as CUDA's own error at the end of a capture is.
    """
    # torch.OutOfMemoryError by name, as this module is imported without torch.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if not isinstance(error, PermafrostError) and any(word in str(error).lower() for word in _NO_MEMORY):
        return True
    before = _cause(error)
    return before is not None and is_out_of_memory(before)


def _cause(error: BaseException) -> BaseException | None:
    """What an error was raised because of, or while it was handled."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


_NO_MEMORY = (  # of torch, the system, C++, the loader of libraries, Python's and Arrow's threads; of CUDA's libraries
    "out of memory",
    "_status_alloc_failed",
    "cublas_status_not_initialized",  # what cuBLAS says where there is no memory for its handle
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
    "failed to map segment",
    "new thread",
    "worker thread",
)


def is_device_broken(error: BaseException) -> bool:
    """Whether CUDA reported an error after which every call in this process may fail: an illegal access, a failed
    assertion, a device that is gone. Memory that torch could not get is not such an error.
    """
    if type(error).__name__ == "AcceleratorError" or any(word in str(error).lower() for word in _CUDA_SAYS):
        return not isinstance(error, PermafrostError)
    before = _cause(error)
    return before is not None and is_device_broken(before)


def is_device_gone(error: BaseException) -> bool:
    """Whether CUDA says that the fault is the device's, so that a trial may well run on another one."""
    return is_device_broken(error) and any(word in str(error).lower() for word in _GONE)


class RecordingError(RuntimeError):
    """A training step cannot be recorded as a CUDA graph. torch goes on capturing, so dropout and `empty_cache` fail:
    the process has to end. The next one knows of it and trains without graphs, so no trial is lost.
    """


def is_recording_failed(error: BaseException) -> bool:
    """Whether an error is a RecordingError, was raised from one, or while one was handled."""
    before = _cause(error)
    return isinstance(error, RecordingError) or (before is not None and is_recording_failed(before))


_CUDA_SAYS = (  # the last two: of torch after a recording of a CUDA graph that failed
    "cuda error",
    "cublas_status_",
    "cudnn_status_",
    "hip error",
    "captures_underway.empty()",
    "offset increment outside graph capture",
)
_GONE = (  # of cudaGetErrorString; the last: a card that this build of torch has no code for, beside one that it has
    "capable device",
    "unknown error",
    "uncorrectable",  # ECC, NVLink
    "hardware",
    "not yet initialized",  # of a machine whose fabric manager is down
    "no kernel image",
)


def reason(error: BaseException) -> str:
    """The first sentence of a library's error, without the advice that follows it."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    sentence = line.split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= LONGEST_REASON else f"{sentence[:LONGEST_REASON]}..."


def quote(value: object) -> str:
    """A value from a file as a message shows it: shortened by `excerpt`, text in quotation marks."""
    if not isinstance(value, str):
        return excerpt(repr(value))
    text = excerpt(value)
    return f'"{text}"' if "'" in text else f"'{text}'"


def excerpt(text: str) -> str:
    """The first `MAX_QUOTED` characters of a text from a file, escaped."""
    text = escape_line(text[: MAX_QUOTED + 1])
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def unknown_name(name: str, known_names: Iterable[str], *, in_file: bool = False) -> str:
    """The message for an unknown name: `unknown 'frist_k', did you mean 'first_k'? Known: ...`; it quotes little of
    the content of a file.
    """
    names = sorted(known_names)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f", did you mean {quote(near[0])}?" if near else "."
    listed = excerpt(", ".join(names)) if in_file else ", ".join(names)
    return f"unknown {quote(name)}{hint} Known: {listed or 'none'}."


class UnknownNameError(ConfigError, ValueError):
    """A name that nothing is registered under; as a ValueError, pydantic adds the place to it."""


class MissingError(PermafrostError):
    """Something that this machine or installation lacks."""

    exit_code = 3


class NoDeviceError(MissingError):
    """A trial was given a GPU that its process does not see."""


class NothingMatchedError(PermafrostError):
    """The request matches nothing."""

    exit_code = 5


class NotFetchedError(PermafrostError):
    """A corpus or model of another place that is looked up later, when its sweep has no mistake left."""


class RefusedError(PermafrostError):
    """A request that is refused because it would not be safe."""

    exit_code = 4


def missing_package(package: str, extra: str, purpose: str) -> str:
    """What a message says where a package is not installed; empty where it is.

    Args:
        package: The module that is imported.
        extra: The extra that installs it.
        purpose: What needs it, as the beginning of the sentence.
    """
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:  # a mere folder of that name, as W&B makes one, has no origin
        return ""
    return f"{purpose} needs {package}, which is not installed. Run: pip install 'permafrost-sweeps[{extra}]'"


def require(package: str, extra: str, purpose: str) -> None:
    """Raise ConfigError, with exit code 2, if a package is not installed; arguments as of `missing_package`."""
    if problem := missing_package(package, extra, purpose):
        raise ConfigError(problem)
