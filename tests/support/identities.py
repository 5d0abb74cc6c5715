"""Values that vendors ship in many machines, and values that machines of their own have."""

from __future__ import annotations

SHIPPED_UUIDS = (
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "03000200-0400-0500-0006-000700080009",  # AMI
    "00020003-0004-0005-0006-000700080009",
    "03aa02fc-0414-0500-0006-000700080009",  # Gigabyte, with a MAC address between the counting bytes
    "03AA02FC-0414-05D3-7106-8A0700080009",
    "9402DE03-8004-0605-F806-D50700080009",
    "03020100-0504-0706-0809-0a0b0c0d0e0f",
    "00010203-0405-0607-0809-0a0b0c0d0e0f",
    "00112233-4455-6677-8899-aabbccddeeff",
    "12345678-1234-5678-90ab-cddeefaabbcc",
    "12345678-1234-1234-1234-123456789abc",
    "01234567-89ab-cdef-0123-456789abcdef",
    "fedcba98-7654-3210-fedc-ba9876543210",
    "deadbeef-dead-beef-dead-beefdeadbeef",
    "11111111-2222-3333-4444-555555555555",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "20202020-2020-2020-2020-202020202020",
    "4C4C4544-0000-2010-8020-80C04F202020",  # Dell without a service tag
    "00000000-0000-0000-0000-000000000001",
    "00000000-0000-0000-0000-001122334455",
    "00000000-0000-0000-0000-020000000001",  # of a locally administered MAC address
)
OWN_UUIDS = (
    "38b7a8c4-0001-11ec-9621-0242ac130002",
    "4c4c4544-0042-3510-8058-b4c04f4e3732",  # Dell
    "30373237-3132-4d32-3235-303130304436",  # HPE, letters of the serial number
    "00000000-0000-0000-0000-ac1f6b8d2f10",  # Supermicro, zeros and the MAC address
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
)
SHIPPED_SERIALS = (
    "To Be Filled By O.E.M.",
    "to be filled by OEM",
    "TO_BE_FILLED_BY_O.E.M",
    "To be filled by OEM (0)",
    "Default string",
    "default_string",
    "DEFAULT-STRING",
    "Not Specified",
    "Not-Specified",
    "Not Applicable",
    "N/A",
    "n.a.",
    "None",
    "NULL",
    "Unknown",
    "Undefined",
    "Serial Number",
    "System Serial Number",
    "Chassis Serial Number",
    "Base Board Serial Number",
    "SerNum0",
    "OEM",
    "Empty",
    "0",
    "0000000000",
    "XXXXXXXX",
    "........",
    "-",
    "----------",
    "0123456789",
    "123456789",
    "1234567890",
    "0123-4567-89",
    "9876543210",
    "0123456789ABCDEF",
    "1234567890ABCDEF",
    "abcdefgh",
    "123123123",
    "00:00:00:00",
    "ABABABAB",
)
OWN_SERIALS = (
    "SN-1",
    "A1",
    "S443222X0B12345",
    "CN7792164R00FE",
    "2M2801003Y",
    "J10220K",
    "00000042",
    "1221",
    "GPU0001",
)
SHIPPED_MACS = (
    "00:00:00:00:00:00",
    "ff:ff:ff:ff:ff:ff",
    "00:11:22:33:44:55",
    "01:23:45:67:89:ab",
    "be:3a:f2:b6:05:9f",  # a machine's connection to the BMCs of Supermicro and Lenovo
    "02:00:00:00:00:01",
    "33:33:00:00:00:01",  # a group
    "01:00:5e:00:00:fb",
)
