"""Diagnosis -> text: terminal, JSON, Markdown, and the pages of `explain`. Values in, text out; nobody prints here.

words.py says each thing once, the formats only lay it out; hosttext.py makes what a host wrote harmless.
"""
