"""The command ``tocsin``.

``main``      the list of commands, and what ``tocsin`` alone teaches
``serve``     runs the service
``add``       one schedule, each of its fields an option
``define``    apply, rm
``import_crontab``, ``crontab``  crontabs become schedules, every line accounted for
``apply``     documents become schedules; ``diff`` shows what would change, ``prune`` removes what has no document
``documents`` what ``apply`` reads: files, documents, errors that say where
``reading``   YAML and TOML, read strictly
``several``   many questions at once, the answers in order, and how far it is
``operate``   pause, resume, run, cancel; ``bulk`` the same for many
``export``    all schedules out; ``import_schedules`` very many in, a line of JSON each
``look``      list, show, status
``launches``, ``launch``, ``output``, ``why``: what came of the schedules
``events``, ``follow``  what happens and what is printed, as it comes
``history``   who did what; ``versions`` what was before, and restore
``backfill``  launches what was left out; ``resolve`` ends a doubt
``tokens``    token create, list, revoke; whoami
``reckon``    next, explain: computed here, no service needed
``completion``  scripts for shells; ``complete`` finds what the Tab key asks for
``command``   what all commands have in common: options, errors, exit status
``asking``    before much is done at once: a yes
``refusal``   not let in: what was tried, and what would help
``moments``   times as people write them
``present``   tables and times

A person mostly waits for Python to start, so a module here imports what is heavy inside its functions.
Exit status: 0 done, 1 refused or failed, 2 not understood, 3 the service does not answer, 4 ``apply --diff`` found
that something would change.
"""
