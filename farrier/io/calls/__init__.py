"""Implementations of protocols that change something: take calls of commands, servers and loops, and return
answers.
"""
