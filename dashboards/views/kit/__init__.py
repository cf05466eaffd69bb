"""What draws the pages: theme, parts, figures, tables, cards, answers."""
