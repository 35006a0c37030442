"""The session: the record of a run, and the file that holds it."""
