"""The Kubernetes manifests of a cluster, and the command that writes them."""
