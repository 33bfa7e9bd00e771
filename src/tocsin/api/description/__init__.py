"""What the API says about itself, made of what the running application serves.

``about``      what a handler says about itself
``openapi``    ``/openapi.json``
``shapes``     what is sent and answered, as JSON schema
``wording``    words, limits and patterns that a type alone does not tell
``samples``    examples
``reference``  ``/docs``: the same as a page
"""
