"""HTTP for MAAS, UFM and Vault: requests go in; decoded responses or classified failures come out."""
