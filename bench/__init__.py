"""Speed, measured on this machine in one run, and told as ratios of things that were measured next to each other.

``python -m bench --help`` tells what there is. What users see is measured as they see it: ``tocsin serve`` is a process
of its own, asked over HTTP, and how long launches took is read from what it recorded. Each peer runs in a process of
its own too (``peers/``), each scenario is a file (``scenarios/``), and ``table.py`` is how figures and goals look.

A goal that is missed is printed as such and is no error: how fast a machine is says nothing about whether a program
is right.
"""
