"""What the rest of Tocsin talks about, as frozen structs that serve the journal, the API and the CLI alike.

``ids``       the rules for ids, and how a launch is named
``target``    where launches go: one struct a kind of target
``schedule``  what a user defines, and the checks on it
``meant``     which field was probably meant by one that does not exist
``rule``      the part of a schedule that timing decisions need, small enough to be read for every due row
``launch``    states of a launch, and how it is shown
``change``    what an entry can say happened
``event``     one thing that happened, as it is told to whoever follows
``answer``    what the API answers with, for server and client alike
``preview``   what a new or changed schedule would do, asked and answered
``problem``   errors as problem details, and back
``command``   what a caller may ask for
``entry``     one journal record: a batch of changes with term, time and a unique id

Times are integers inside (``_s`` unix seconds, ``_ms`` unix milliseconds) and RFC 3339 in UTC outside.
"""
