"""Corpora as token ids: tokenised once a node and cached."""
