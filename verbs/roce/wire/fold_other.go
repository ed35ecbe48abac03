//go:build !amd64

package wire

import "hash/crc32"

// UpdateICRC carries a CRC over more bytes of a packet.
func UpdateICRC(crc uint32, p []byte) uint32 { return crc32.Update(crc, crc32.IEEETable, p) }

// CopyICRC copies p to to and carries a CRC over what it copied: p may change meanwhile.
func CopyICRC(crc uint32, to, p []byte) uint32 {
	to = to[:len(p)]
	copy(to, p)
	return UpdateICRC(crc, to)
}
