"""What Ray's workers import: our packages, and nothing of the folder that a sweep is launched from.

Ray puts the driver's working folder, and that of its script, first on its workers' `sys.path`, so a `trials.py` there
would be imported for our package, in each worker that did not import ours before. Plug-ins are sent as files
(`plugin_staging`), so workers need no folder of the driver's but the one that our packages are in, and that only where
Python does not look into it by itself: a checkout that is not installed.
"""

from __future__ import annotations

from typing import Any

from ray.job_config import JobConfig

from trials.plugins.import_origins import folders_for_other_processes


class OwnPathJob(JobConfig):  # type: ignore[misc]  # Ray has no types here
    """Ray's description of a driver. `ray.init` adds its folders just before it asks for the message."""

    def _get_proto_job_config(self) -> Any:
        self._py_driver_sys_path = folders_for_other_processes()
        return super()._get_proto_job_config()
