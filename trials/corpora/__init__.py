"""What is this file? Corpora from the names of their files to items, in the order of the question.

1. Which files of a folder are which split: `split_names`, `split_files`; `converted` where splits are no files.
2. What kind of file each is: `recognisers` is the table; `layout` asks what was declared, then it, then the suffix.
3. How it is read: cells in `text_file`, `table_rows`, `column_lines`; one reader a format in `formats`; then `corpus`.
4. What its cells and labels are: `column_names`, `cell_evidence`, `schemes`, `labels`, `documents`.
5. What is broken: `broken_lines`; what is odd is said for its task, in `trials.tasks.task_corpus`.

Importing the package registers the formats.
"""

from trials.corpora import formats as formats
