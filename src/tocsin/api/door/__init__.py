"""What every request passes, in this order.

``protocol``   how long a connection may take, and how much it may send
``inflow``     what comes in, measured by the parser and held back when it is too much
``lobby``      what connections share: their number, their turns, who makes room
``tls_listener``  takes connections that shake hands first
``tls``        certificates, read again when they change
``proxies``    the address of the client, where a trusted proxy stands between
``measured``   how long the answer took, and how it ended
``gate``       the steps below, one after the other
``guard``      keeps web pages away from a service without tokens
``access``     who is asking, and the table of what they may do
``failed_logins``  who tried and failed
``pace``       how fast they may ask
``read_concurrency``  how many of their reads run at once
``addresses``  ids contain slashes and verbs are a colon suffix: taken apart here and nowhere else
``methods``    HEAD and OPTIONS, which handlers need not think of
"""
