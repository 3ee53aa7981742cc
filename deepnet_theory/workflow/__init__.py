"""Derive, verify, export, make a report: joins the rooms, computes nothing itself.

A function imports the room that it needs when it is called: importing torch takes longer than a
whole derivation, and SymPy longer than an export.
"""
