"""What a sweep says, as files for a paper: one HTML, Markdown, LaTeX and CSV tables, figures."""
