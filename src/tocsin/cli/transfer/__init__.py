"""Many schedules in and out.

``import_crontab``    crontabs become schedules, every line accounted for; ``crontab`` reads them
``import_schedules``  very many, a line of JSON each
``export``            all of them out
"""
