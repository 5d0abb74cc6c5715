"""BMCs over Redfish: an address, a credential and a call go in; readings or a classified failure come out."""
