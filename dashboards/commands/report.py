"""The report of a sweep as files for a paper, and single figures as a page shows them.

permafrost report results starter -o report
permafrost export figure depth-strip --store results -o depth.svg
"""

from __future__ import annotations
