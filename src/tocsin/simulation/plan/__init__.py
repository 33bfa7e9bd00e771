"""What is going to happen, decided by the seed before anything does: a list of actions, each of them by itself, so
that a shorter list is a plan as well.

``workload``  schedules of every policy, and what people do with them
``trouble``   which faults, when, and for how long
``plan``      both, put together
"""

from tocsin.simulation.plan.plan import FAMILIES, Action, Plan, make_plan, read_plan, write_plan

__all__ = ["FAMILIES", "Action", "Plan", "make_plan", "read_plan", "write_plan"]
