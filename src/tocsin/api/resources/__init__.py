"""The handlers.

``schedules``   list, create, read, replace, patch, delete
``operate``     pause, resume, run
``foresee``     upcoming, why
``preview``     what a schedule would do if it were written
``afterwards``  history, versions, restore, backfill, resolve
``launches``    list, read, cancel; ``output`` what they printed
``bulk``, ``transfer``  many schedules at once, a line each
``events``      what happens, as it happens; ``streams`` who is listening
``cluster``     the replicas: look, step down, add, remove; ``replicas`` what they say of themselves, side by side
``clock``       the wall clock: look, confirm; repair next instants computed under a wrong one
``tokens``      list, make, revoke
``status``      for people, for probes, for Prometheus; ``health`` what somebody should look at
"""
