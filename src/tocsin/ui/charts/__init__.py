"""Numbers as pictures: pure functions that write SVG."""
