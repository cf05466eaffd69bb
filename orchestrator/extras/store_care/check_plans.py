"""Check the plans of a store's sweeps."""

from __future__ import annotations

from orchestrator.extras.store_care.check_rows import Report
from orchestrator.storage.storage import BrokenError, Storage
from orchestrator.store.stored_specs import checked_spec
from orchestrator.store.sweep_plans import SWEEPS, SweepPlan, decoded_plan, is_plan


def check_plans(storage: Storage, report: Report) -> list[SweepPlan]:
    """The newest readable plan of each sweep."""
    newest = []
    for sweep in storage.at(SWEEPS).folders():
        folder, plans = storage.at(SWEEPS).at(sweep), list[SweepPlan]()
        for name in filter(is_plan, folder.files()):
            try:
                plan = decoded_plan(f"{folder}/{name}", folder.read(name))
            except FileNotFoundError:
                continue
            except (OSError, BrokenError) as error:
                wrong = error.wrong if isinstance(error, BrokenError) else f"cannot be read ({error})"
                means = "`status` fails; the next launch writes the plan again"
                report.remove_file((SWEEPS, sweep), name, wrong, means)
                continue
            plans.append(plan)
            _check_specs(f"{SWEEPS}/{sweep}/{name}", plan, report)
        newest += plans[-1:]
    return newest


def _check_specs(name: str, plan: SweepPlan, report: Report) -> None:
    wrong = {i: problem for i, spec in plan.trials if isinstance(problem := checked_spec(spec, i), str)}
    if wrong:
        first, problem = next(iter(wrong.items()))
        report.find(
            name,
            f"{len(wrong)} of {len(plan.trials)} trials do not match their ids; the first, {first}: {problem}",
            "`status` may show them wrongly; the next launch writes the plan again",
        )
