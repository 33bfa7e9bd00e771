"""The command ``tocsin``.

``main``        the list of commands, and what ``tocsin`` alone teaches
``serve``       the options of the service; ``service`` is what it becomes
``define``      schedules come, change and go: add, set, apply, rm
``transfer``    many at once: import-crontab, import, export
``operate``     pause, resume, run, cancel, bulk, backfill, resolve
``look``        what there is and what came of it: list, show, launches, output, why, history, events,
                audit, forecast, limits
``tokens``      token create, list, revoke; whoami
``backup``      backup, and below it list, verify; what ``restore --data`` does with one
``restore_state``  what ``restore OLD-DATA --data`` does with the state of a replica
``clock``       the wall clock: clock, and below it confirm
``repair``      repair due: next instants that were computed under a wrong clock
``journal``     journal skip, unskip: an entry that no replica can apply
``cluster``     the replicas: cluster, and below it step-down, add, remove, secret
``reckon``      next, explain: computed here, no service needed
``simulate``    sim: whole replicas under faults, in a world that is not real
``completion``  scripts for shells; ``complete`` finds what the Tab key asks for

``command``     what all commands have in common; ``printing`` what they print, and their exit status
``usage``       what was typed and not understood; ``help`` says it better the next time
``asking``      before much is done at once: a yes
``refusal``     not let in: what was tried, and what would help
``warned``      what the service did, and thinks you should know
``several``     many questions at once, the answers in order, and how far it is
``moments``     times as people write them
``present``     tables and times
``fields``      the fields of a schedule, one a line

A person mostly waits for Python to start, so a module here imports what is heavy inside its functions.
Exit status: 0 done, 1 refused or failed, 2 not understood, 3 the service does not answer, 4 ``apply --diff`` found
that something would change.
"""
