"""How the simulated region shows its records: machines, networks and disks go in; exactly the
recorded fields come out.
"""
