"""Actions on many resources: takes intents and a limit, submits them a few at a time, and returns their answers.

The command line and the pages use this package.
"""
