"""Text and files from outside, made safe for whoever shows or reads them."""
