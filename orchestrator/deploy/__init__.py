"""Kubernetes manifests, and checks that a machine is ready."""
