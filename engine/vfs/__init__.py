"""The files of a brain: path rules, media types, and the rows that stand for files and directories."""
