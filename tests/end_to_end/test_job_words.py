"""What Ray's list of jobs shows of a sweep's driver."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.lab.chaos.cluster import base_environment
from tests.lab.chaos.processes import end_all

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

ASK = """
import json, subprocess, sys, urllib.request
from pathlib import Path
from orchestrator.ray_backend.cluster import local_cluster
from orchestrator.ray_backend.jobs import job_metadata
with local_cluster(job_metadata("starter", "/a store")) as cluster:
    ray = Path(sys.executable).with_name("ray")
    token = subprocess.run([ray, "get-auth-token"], capture_output=True, text=True).stdout.strip()
    request = urllib.request.Request(f"{cluster.dashboard}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
    print(json.dumps([job["metadata"] for job in json.load(urllib.request.urlopen(request, timeout=60))]))
"""


def test_the_jobs_of_rays_dashboard_name_the_sweep_and_where_its_results_are_seen() -> None:
    seen = "permafrost dashboard --store '/a store'"
    with tempfile.TemporaryDirectory(prefix="pf-") as name:
        folder = Path(name)
        environment = base_environment(folder) | {"RAY_AUTH_TOKEN": "x" * 32, "PERMAFROST_DASHBOARD_URL": ""}
        try:
            words = [sys.executable, "-W", "ignore", "-c", ASK]
            done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        finally:
            end_all(folder)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])[0]
    assert told["permafrost_dashboard"] == seen
    assert told["job_name"] == f"starter: {seen}"
    assert told["permafrost_store"] == "/a store"
