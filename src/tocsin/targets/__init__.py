"""Where launches go. ``contract`` says what every target promises; then one small file (or folder) a target.

A target knows nothing of schedules, retries or the journal: it is handed one named order at a time and says
how the call ended. Policy (retry, doubt, overlap) lives in ``decide``, never here.
"""
