"""The etcd that each replica of a cluster runs for itself.

Tocsin's journal needs a quorum, and etcd is one. A replica that is started with ``--cluster`` runs a member of it, so
that nobody has to set up anything else. The data of etcd is authoritative for who is a member; ``--cluster`` only says
where to look for the others.

::

    <data>/member/member.json      what this disk remembers: its token, and whether it belongs to a cluster
    <data>/member/etcd/            etcd's data, and in it the mark by which a copy is recognised
    <data>/member/etcd.log         what etcd prints, and .1 for what came before
    <data>/member/etcd.removed/    the data of a member that the cluster has no more, until it happens again
    <data>/member/tls/             certificates derived from the cluster's secret
    <data>/member/recovered.json   the cluster went on with this replica alone, and the journal does not say so yet

How a replica comes up:

=====================================  ========================================================================
it has data, as it was written         etcd is started with it, or taken over if it still runs
empty, all others are empty too        they found the cluster together
empty, another belongs to a cluster    it joins, as a new member in the old one's place, if it may
empty, and some do not answer          it waits, and says for whom
bereft: it has a state, and no etcd    it joins like an empty one, but founds nothing
it has data, put back from a copy      it joins like an empty one, and its data is put aside then
the same, and ``--cluster`` names      etcd is started with it: nobody could know more
nobody else
``--recover``, and it has data         the others are struck off, and join again with empty disks, or with copies
=====================================  ========================================================================

What goes wrong and what happens then:

=====================================  ========================================================================
etcd dies                              it is started again, with growing pauses
Tocsin dies                            etcd stays, for the quorum's sake; the next Tocsin takes it over
no majority                            it waits; ``problem`` and the log say what is missing
removed, by the list of members that   ``lost`` says so; the replica has to stop, and the data is put aside then
a majority has agreed on
its log is shorter than it was         ``lost`` says so, and the data is a copy from then on
the others reach this member at an     etcd ends at once, else the same: a clone of the machine runs there
address that is not its own
another secret                         the handshake fails; neither learns anything of the other
other authorities are trusted than     etcd is started again, also if it outlived its Tocsin
before
=====================================  ========================================================================

``address``      the list of replicas and their ports
``secret_file``  the secret, and while it is being changed several
``secret``       certificates from one secret
``record``       what this disk remembers
``files``        small files, written as a whole
``founding``     to found, to join or to wait: a pure decision, and the asking for it
``joining``      how the others take in a replica with an empty disk, or with a copy
``recovery``     going on after the majority was lost
``program``      the etcd program and its options
``process``      keeps it running
``chatter``      what it prints
``health``       how it is doing
``membership``   replicas come and go
``member``       all of it together
"""
