"""What an operator does.

``single``    pause, resume, run, cancel
``bulk``      the same for many
``backfill``  launches what was left out
``resolve``   ends a doubt
"""
