"""Conformance suites, shipped so that whoever writes a journal engine or a target can run the very claims
against it that ours must pass. Nothing else in Tocsin imports this package.
"""
