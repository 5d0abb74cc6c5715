"""How the simulated region shows its records: machines, networks and disks, with exactly the recorded fields."""
