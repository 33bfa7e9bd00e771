"""Schedules come, change and go.

``add``        one schedule, each of its fields an option
``apply``      one document after the other becomes a schedule
``diff``       what ``apply`` would change: fields, and launches that move
``prune``      what carries a label and has no document is removed
``documents``  files, documents, errors that say where
``reading``    YAML, JSON and TOML, read strictly
``set``        some fields of a schedule, the rest as it is
``commands``   apply, rm: what a person types
"""
