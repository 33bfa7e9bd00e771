"""What ``import-crontab`` makes of a crontab.

``files``   which files, of which format, of whose
``lines``   the whole text: every line with exactly one report
``entry``   one line: when, who, what
``text``    how cron reads settings and the ``%`` of commands
``ids``     names for what has none, the same at every import
``clashes`` the same line in two of the files
``present`` what earlier imports left, and what of it has no line any more
``herds``   many lines on the same minute
``report``  what is told in the end
"""
