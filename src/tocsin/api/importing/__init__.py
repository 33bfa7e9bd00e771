"""An import, from lines of JSON to columns of new schedules.

``blocks``   the stream, cut into blocks of whole lines
``reading``  a block is read, checked and settled
``reader``   processes that do so, because it is the most of the work and must not make launches late
``work``     the whole of it, with what is told meanwhile
"""
