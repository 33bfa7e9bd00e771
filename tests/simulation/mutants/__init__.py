"""Products with one thing broken each. A simulation that does not catch them does not look where it says it does.

``office``     who leads, and for how long
``journal``    how entries are written and acted on
``takeover``   what a new leader makes of what it finds
``state``      snapshots, trimming, and applying
``policies``   what a schedule's owner wants
"""

from tests.simulation.mutants import journal, office, policies, state, takeover
from tests.simulation.mutants.contract import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *office.MUTANTS,
    *journal.MUTANTS,
    *takeover.MUTANTS,
    *state.MUTANTS,
    *policies.MUTANTS,
)
