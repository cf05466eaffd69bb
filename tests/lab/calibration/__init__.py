"""How often our conclusions are wrong: worlds whose truth is known, through the functions that every surface uses."""
