"""`tf.train.Example`s and record files, byte by byte; and the samples of the tests of sources that have such records."""

import struct


def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


CRCS = list(crc_table())


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRCS[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked_crc(length) + data + masked_crc(data)


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(values):
    if not values:
        return field(3, b"")
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(map(varint, values))))


def example(features):
    entries = (field(1, field(1, name.encode()) + field(2, feature(values))) for name, values in features.items())
    return field(1, b"".join(entries))


def samples(count=120):
    for number in range(count):
        yield {"number": [number], "text": ["ä".encode() * (number % 5)], "values": [1 << number % 60, *range(300 + number % 7)]}
