"""What there is, and what came of it.

``schedules``  list, show, status
``launches``   many launches; ``launch`` one, with every step
``output``     what a launch printed; ``follow`` as it comes
``why``        why it was launched, or why not
``history``    who did what; ``versions`` what was before, and restore
``events``     what happens, as it happens
"""
