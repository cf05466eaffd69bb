"""The numbers of published studies, and their comparison with ours."""
