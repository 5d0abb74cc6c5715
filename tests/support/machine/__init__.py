"""A real machine for tests: a QEMU machine behind a Redfish BMC, installed by cloud-init."""
