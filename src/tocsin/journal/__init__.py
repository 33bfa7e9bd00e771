"""The replicated, totally ordered log: the only truth there is.

``contract``  what every engine promises
``codec``     an entry as bytes: msgpack, compressed when large, with a checksum
``sqlite``    the embedded engine: one machine, nothing to install
``etcd``      the quorum's engine: an etcd cluster that outlives a server

An engine stores records and knows nothing of what is in them. ``tocsin.testing.journals`` holds the suite that
every engine passes.
"""
