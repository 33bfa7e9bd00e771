"""The command ``tocsin``.

``main``      the list of commands, and what ``tocsin`` alone teaches
``serve``     runs the service
``add``       one schedule, each of its fields an option
``define``    apply, rm
``documents`` what ``apply`` reads: files, documents, errors that say where
``reading``   YAML, read strictly
``operate``   pause, resume, run, cancel
``look``      list, show, status
``launches``, ``output``, ``why``: what came of the schedules
``reckon``    next, explain: computed here, no service needed
``command``   what all commands have in common: options, errors, exit status
``present``   tables and times

A person mostly waits for Python to start, so a module here imports what is heavy inside its functions.
Exit status: 0 done, 1 refused or failed, 2 not understood, 3 the service does not answer.
"""
