"""The quorum's engine: a journal in an etcd cluster that outlives a server.

``address``    what ``etcd://...`` means
``journal``    the journal: an entry is a key, a head makes each append conditional
``roster``     the replicas, kept next to it
``space``      compaction and defragmentation, so that etcd's file stays bounded
``client``     a thin client of etcd; ``endpoints`` chooses the server, ``channel`` and ``stream`` are gRPC over
               HTTP/2, ``messages`` and ``wire`` are its bytes, ``failures`` what can go wrong

etcd is authoritative; this package keeps nothing. An append whose answer is lost is ``Unknown``, never repeated here.
"""
