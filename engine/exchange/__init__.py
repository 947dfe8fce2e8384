"""A brain that leaves whole: what is exported, and the formats it is written in."""
