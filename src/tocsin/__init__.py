"""Tocsin: a distributed cron service. Every occurrence launched once, on time, and accounted for.

Follow a launch through the packages in this order: ``cron`` (when), ``model`` (what), ``decide`` (which changes
are due), ``journal`` (made durable), ``state`` (what the entries add up to), ``targets`` (where it goes) and
``replica`` (the loop that drives it all). ``node`` puts the pieces together.
"""

__version__ = "0.1.0"
