"""Permafrost trials: what one trial takes, does and gives; no Ray and no Plotly in here."""
