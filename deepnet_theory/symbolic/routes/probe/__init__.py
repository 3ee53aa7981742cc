"""The probe route: Su's scalar magnitudes."""
