"""Run one trial without Ray and print its epoch records as JSON lines.

python -m trials spec.json [--threads 1]

The file holds a draft, e.g. {"data": "UD_Naija-NSC-sample", "freeze": {"strategy": "first_k", "depth": 2},
"train_size": 200}; see `trials.draft` for all of its keys.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from trials.draft import Lookup, TrialDraft
from trials.errors import ConfigError, PermafrostError
from trials.outside.plain_files import read_bytes
from trials.outside.validation_rules import rule_of
from trials.plugins.loading import load_installed


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trials", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("spec", type=Path, help="a JSON file with one trial")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads; another number may change the last digits")
    args = parser.parse_args(argv)
    for problem in load_installed():
        print(problem, file=sys.stderr)
    try:
        _run(args.spec, args.threads)
    except PermafrostError as error:
        print(f"{args.spec}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(path: Path, threads: int) -> None:
    spec = _read(path).resolve(Lookup())

    import torch  # only now, so that a mistake in the file is reported at once

    from trials.cache.set_up_work import report_to
    from trials.run import run_trial

    torch.set_num_threads(threads)
    with report_to(lambda work: print(work, file=sys.stderr)):
        for record in run_trial(spec):
            print(json.dumps({"trial_id": spec.trial_id, **asdict(record)}), flush=True)


def _read(path: Path) -> TrialDraft:
    try:
        return TrialDraft.model_validate_json(read_bytes(path))
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise ConfigError(f"{'.'.join(map(str, e['loc']))}: {rule_of(e)}." for e in error.errors()) from error


if __name__ == "__main__":
    sys.exit(main())
