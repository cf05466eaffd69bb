"""What a sweep says, as files for a paper: one HTML, LaTeX and CSV tables, figures."""
