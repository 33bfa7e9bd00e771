"""An import, from lines of JSON to columns of new schedules.

``blocks``   the stream, cut into blocks of whole lines
``reading``  a block is read, checked and settled
``child``    a process that does so, because it is the most of the work and must not make launches late
``reader``   two of them, in turn
``work``     the whole of it, with what is told meanwhile
"""
