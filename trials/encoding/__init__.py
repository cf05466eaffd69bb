"""Corpora as token ids, tokenised once per node and cached."""
