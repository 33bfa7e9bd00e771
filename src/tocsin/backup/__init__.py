"""Snapshots copied to another place: a folder, or any URL that ``fsspec`` knows (s3, gcs, hdfs, sftp, ...).

``store``     ``Backups``: put, list, verify, fetch, prune
``shelf``     what lies there: folders of journals, files in them
``manifest``  what a backup claims to be, and what its files are called
``copying``   the bytes on their way: compressed, counted, and their checksums taken
``place``     where it is: the URL, its options, and what of it may be shown
``patience``  nothing waits for ever: whoever says nothing for too long is given up
``trouble``   what went wrong there, as a sentence with a remedy

A place holds one folder for each journal, named by its incarnation::

    <url>/<incarnation>/state-<sequence>-<try>.db.zst    the state, compressed
    <url>/<incarnation>/state-<sequence>.json            its manifest, which names that file

The manifest is what counts. It is written last, after the data was read back and its checksum was the right one, and
removed first: whatever is interrupted in between leaves no backup behind that is none. Every try has a file of its
own: neither two replicas that copy the same moment (their files differ, their content does not) nor a try that was
given up and comes back to life can spoil what another one wrote.

Zstandard, level 3: a state shrinks to a fifth of its size at 350 MB/s a core; higher levels gain nothing on it.

Whose it is: in a cluster a manifest carries an authenticator of all that it says, made with the cluster's secret. What
has another one, or none, is neither restored without a person asking for it nor removed: to be able to write to the
place is not to be a part of the cluster. A service on one machine has no secret, so it restores nothing by itself.

What is kept: of each journal the newest ``keep`` backups that are whole. Journals do not push out one another's, for a
service that was started with an empty disk by mistake would soon have replaced all that is worth having by nothing.
Of the journals that a cluster had, one whose newest backup is thirty days older than the newest of them all is
forgotten. A service on one machine removes backups of its present journal only: others may be somebody else's. What an
interrupted copy left behind is removed when there is a newer backup of the same journal.
"""
