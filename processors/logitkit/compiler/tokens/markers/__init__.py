"""The text before a marker, as in "any text until `</think>`": compiled once, whatever follows the marker.

before_marker     the table of the text before the marker
marker_targets    numbers for its targets
suffix_walk       where the suffix of a token leads after the marker
"""
