"""Commands on this machine, which live on when Tocsin dies.

::

    Tocsin ──order──▶ nursery ──fork──▶ keeper ──spawn──▶ command
       ▲                                   │ │
       └───────── started, ended ──────────┘ └─▶ <exec_dir>/<name>/<attempt>/

Tocsin itself is threaded and never forks. It starts one small helper, the *nursery*, and hands it orders over
a socket pair. For an order the nursery forks a *keeper*, a process in a session of its own which starts the
command, keeps its output, enforces its time-out and writes down how it ended. A keeper sees to one order at a
time; when its command has ended it waits a second for another one, which saves most forks in a herd. The
nursery ends with Tocsin; keepers stay until their command has ended. (Under systemd this needs
``KillMode=process``: the default ends the whole control group.)

**The record on disk is authoritative**; messages over the socket only make it faster. One directory an
attempt:

``claim``      who has this attempt: boot id, pid and start time of the keeper. Made atomically and never
               replaced: of all that try to start one attempt (a former Tocsin, this one) exactly one gets it
``withdrawn``  a claim whose keeper found that authority had ended before the command could start. Only its own
               keeper gives a claim back like this, and the attempt is free again
``command``    pid and start time of the command
``head``       the first bytes it printed, as they come
``tail``       the last bytes, preceded by a line with the number of bytes let go between them
``cancel``     someone wants it to stop
``ended``      how it ended, as JSON

``claim`` and ``command`` are symbolic links whose target is the text: the one way to create a name with its
content in a single step, and to be refused when it is there already.

What became of an attempt, read from its record alone:

=====================================  ===============================================================
no claim, the records are whole        it never started
no claim, otherwise                    unknown (``epoch`` says since when the records are whole)
a void claim                           it never started and never will: the nursery did not answer
``ended``                              that is the outcome
the keeper lives                       running
keeper dead, command lives             running, but its exit status is lost
both dead, nothing ended               unknown
=====================================  ===============================================================

Claims are not flushed to disk one by one: a process that dies loses nothing, and after a power cut the
kernel's boot id has changed, so that a missing claim is doubt and not certainty.

A record under which nothing was begun (void, or cancelled before) is set aside when its attempt is ordered anew: as a
backfill does, or a person who has it called again. Another order of the same attempt may still be on its way then. It
does no harm: of all of them one gets the claim.

**An order is valid** until authority ends (``Order.until_s``, and later if ``.lease`` says that it was renewed), for as
long as Tocsin waits for its keeper, and while the Tocsin that gave it lives: what a frozen helper begins later, nobody
would know of. A keeper looks right before it claims and again right before it starts the command, because it may have
been paused in between. What it finds too late leaves no claim, and Tocsin makes an order void that it finds too late:
the same attempt may be launched later.

**What a command gets.** The payload as JSON on standard input; a ``PATH`` of the usual places; ``LANG``,
``LC_ALL`` and ``TZ`` of the service; ``HOME``, ``USER``, ``LOGNAME`` and ``SHELL`` of its user, the target's ``env``,
and ``TOCSIN_LAUNCH``, ``TOCSIN_SCHEDULE``, ``TOCSIN_SCHEDULED_AT``, ``TOCSIN_ATTEMPT``, ``TOCSIN_TERM``. Nothing
else of the service's environment, so that its secrets stay with it. The working directory is ``cwd``, else
``/``. A process that the command leaves behind goes on, as under any cron, but what it prints after the
command's end is not kept; a time-out or a cancellation ends the whole control group, or where there is none the process
group: SIGTERM, then SIGKILL when the grace is over.

``nursery``, ``keeper``, ``watch``, ``command``, ``cgroup``, ``capture``, ``mouth``, ``records`` and ``processes`` run
in the small helper: they import little on purpose, because every import makes each fork slower. (They also ask the
system for time themselves: ``tocsin.clock`` belongs to the other process.) This file imports nothing for the same
reason. ``target``, ``charge``, ``link``, ``orders``, ``archive``, ``epoch``, ``cgroup_home``, ``lease_file`` and
``reach`` run in Tocsin, and ``lease`` in both.
"""
