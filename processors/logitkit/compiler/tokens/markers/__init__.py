"""Any text before a marker, and then a language: the part before the marker is compiled once, whatever comes after it.

before_marker     the table of the part before the marker
marker_targets    numbers for its targets
suffix_walk       where the bytes lead that a token has after the marker
"""
