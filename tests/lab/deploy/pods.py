"""What KubeRay's operator, a kubelet and a network plugin make of manifests, in namespaces: pods of one container each.

The operator's part follows ray-operator/controllers/ray/common/{pod,job}.go of KubeRay 1.7; without the autoscaler's
container, which needs an API server. Of a security context all is obeyed but the seccomp profile.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.deploy.container import Container, Mount, Setup
from tests.lab.deploy.image import Image
from tests.lab.deploy.networks import Bridge
from tests.lab.deploy.stack import home_of

Manifest = dict[str, Any]
_CONTEXT = {
    "runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile", "allowPrivilegeEscalation", "capabilities",
    "readOnlyRootFilesystem",
}  # fmt: skip
_UNITS = {"Ki": 10, "Mi": 20, "Gi": 30}


@dataclass(frozen=True)
class Peer:
    """A pod as policies see it."""

    space: str
    address: str
    namespace: str
    labels: Mapping[str, str]


class Pods:
    """The pods of a namespace to which one network policy applies, and those of other namespaces.

    Attributes:
        secrets: By name, what is in them.
        maps: The same of config maps.
        containers: Of all pods that were started, by name.
    """

    def __init__(self, bridge: Bridge, image: Image, folder: Path, policy: Manifest, namespace: str = "lab") -> None:
        self._bridge, self._image, self._folder, self._policy = bridge, image, folder, policy["spec"]
        self._namespace = namespace
        # Who answers questions of names is a pod of the cluster's.
        self._peers = [Peer("", bridge.gateway, "kube-system", {})]
        self.secrets: dict[str, dict[str, str]] = {}
        self.maps: dict[str, dict[str, str]] = {}
        self.containers: dict[str, Container] = {}

    def join(self, name: str, namespace: str, labels: Mapping[str, str], *names: str) -> Peer:
        """A pod's network, and the policy for all anew."""
        peer = Peer(*self._bridge.attach(name, *names), namespace, labels)
        self._peers.append(peer)
        for one in self._peers:
            if one.space and self._is_selected(one, {"podSelector": self._policy["podSelector"]}):
                words = ["nsenter", f"--net=/run/netns/{one.space}", "iptables-restore"]
                subprocess.run(words, input=self._rules(), text=True, check=True, capture_output=True)
        return peer

    def start(
        self, name: str, template: Manifest, environment: Mapping[str, str], *names: str, command: Sequence[str] = ()
    ) -> Container:
        """The container of a template; `command` is the operator's, for one without."""
        spec = template["spec"]
        (container,) = spec["containers"]
        context = spec["securityContext"] | container["securityContext"]
        assert set(context) <= _CONTEXT
        assert (context["runAsNonRoot"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}
        peer = self.join(name, self._namespace, template["metadata"]["labels"], *names)
        user = f"{context['runAsUser']}:{context['runAsGroup']}"
        variables = self._image.environment | {"HOSTNAME": name, "HOME": home_of(self._image.files, user)}
        for source in container.get("envFrom", []):
            variables |= self.secrets[source["secretRef"]["name"]]
        variables |= {one["name"]: one["value"] for one in container.get("env", [])} | dict(environment)
        limits = container["resources"]["limits"]
        self.containers[name] = Container(
            Setup(
                self._image.files, container.get("command", command), variables, user,
                mounts=self._mounts(name, spec, container, context["fsGroup"]),
                read_only=context["readOnlyRootFilesystem"], working_directory=self._image.config["WorkingDir"],
                hostname=name, address=peer.address, space=peer.space, nameserver=self._bridge.gateway,
                limits={
                    "memory/memory.limit_in_bytes": str(_bytes(limits["memory"])),
                    "cpu/cpu.cfs_quota_us": str(int(_cpus(limits["cpu"]) * 100_000)),
                },
            ),
            self._folder / name,
        )  # fmt: skip
        self.containers[name].start()
        return self.containers[name]

    def remove(self) -> None:
        """End all of them."""
        for container in self.containers.values():
            container.remove()

    def _mounts(self, name: str, spec: Manifest, container: Manifest, group: int) -> list[Mount]:
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        return [self._mount(name, volumes[one["name"]], one["mountPath"], group) for one in container["volumeMounts"]]

    def _mount(self, name: str, volume: Manifest, place: str, group: int) -> Mount:
        folder = self._folder / f"{name}-{volume['name']}"
        if "configMap" in volume:
            folder.mkdir()
            for file, text in self.maps[volume["configMap"]["name"]].items():
                (folder / file).write_text(text, encoding="utf-8")
            return Mount(place, folder, "ro")
        if volume["emptyDir"].get("medium") == "Memory":
            return Mount(place, None, f"mode=1777,size={_bytes(volume['emptyDir']['sizeLimit'])}")
        folder.mkdir()
        os.chown(folder, 0, group)
        folder.chmod(0o2777)
        return Mount(place, folder)

    def _rules(self) -> str:
        """The policy as iptables-restore takes it, for each pod that it selects."""
        assert self._policy["policyTypes"] == ["Ingress", "Egress"]
        lines = ["*filter", ":INPUT DROP", ":FORWARD DROP", ":OUTPUT DROP"]
        for chain, side in (("INPUT", "i"), ("OUTPUT", "o")):
            lines += [f"-A {chain} -{side} lo -j ACCEPT", f"-A {chain} -m state --state ESTABLISHED -j ACCEPT"]
        for chain, rules, who, flag in (
            ("INPUT", self._policy["ingress"], "from", "-s"), ("OUTPUT", self._policy["egress"], "to", "-d")
        ):  # fmt: skip
            for rule in rules:
                others = [
                    f"{flag} {peer.address}"
                    for peer in self._peers
                    if any(self._is_selected(peer, selector) for selector in rule.get(who, []))
                ]
                ports = [f"-p {one['protocol'].lower()} --dport {one['port']}" for one in rule.get("ports", [])]
                for other in others if who in rule else [""]:
                    lines += [f"-A {chain} {other} {port} -j ACCEPT" for port in ports or [""]]
        return "\n".join([*lines, "COMMIT", ""])

    def _is_selected(self, peer: Peer, selector: Manifest) -> bool:
        spaces = {"kubernetes.io/metadata.name": peer.namespace}
        if "namespaceSelector" in selector:
            if not selector["namespaceSelector"].get("matchLabels", {}).items() <= spaces.items():
                return False
        elif peer.namespace != self._namespace:
            return False
        wanted: Mapping[str, str] = selector.get("podSelector", {}).get("matchLabels", {})
        return wanted.items() <= peer.labels.items()


def start_command(group: Manifest, head: str | None = None) -> str:
    """What KubeRay puts into KUBERAY_GEN_RAY_START_CMD, of a worker if it gets the head's address."""
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    given = {"num-cpus": str(round(_cpus(limits["cpu"]))), "memory": str(_bytes(limits["memory"])), "block": "true"}
    parameters = given | ({"address": head} if head else {"no-monitor": "true"}) | group["rayStartParams"]
    flags = [f"--{name}" if value == "true" else f"--{name}={value}" for name, value in sorted(parameters.items())]
    return " ".join(["ray", "start", *([] if head else ["--head"]), *flags])


def submit_command(dashboard: str, entrypoint: str, job: str = "permafrost-1") -> list[str]:
    """What KubeRay's submitter runs."""
    asked = f"import urllib.request; urllib.request.urlopen('{dashboard}/api/gcs_healthz', timeout=5)"
    lines = [
        f"until python -c {shlex.quote(asked)} >/dev/null 2>&1; do sleep 2; done",
        f"if ! ray job status --address {dashboard} {job} >/dev/null 2>&1",
        f"then ray job submit --address {dashboard} --no-wait --submission-id {job} -- {entrypoint}; fi",
        f"ray job logs --address {dashboard} --follow {job}",
    ]
    return ["/bin/bash", "-ce", "--", "\n".join(lines)]


def _bytes(text: str) -> int:
    return int(text[:-2]) << _UNITS[text[-2:]]


def _cpus(text: str) -> float:
    return int(text[:-1]) / 1000 if text.endswith("m") else float(text)
