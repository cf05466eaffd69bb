"""One trial: its spec, its training and evaluation, and the records it yields. Uses neither Ray nor Plotly."""
