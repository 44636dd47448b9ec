//! Writes below one directory and nowhere else: no link is followed, nothing is overwritten.
