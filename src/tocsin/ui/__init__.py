"""The console: pages for people, served by every replica at ``/``.

A page is put together here, from the same answers that the API gives, and sent as HTML; small scripts of our own keep
it live. It changes nothing itself: whatever a person does goes through the API, as with any other client.
"""
