"""What a person declares: sweeps, their axes and spaces, searches, clusters; and the plan that follows.

Importing the package registers the kinds of search.
"""

from orchestrator.sweeps import search_points as search_points
