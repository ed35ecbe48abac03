//go:build !amd64

package wire

// fold leaves everything to hash/crc32.
func fold(crc uint32, p []byte) (uint32, []byte) { return crc, p }

// foldCopy leaves everything to copy and hash/crc32.
func foldCopy(crc uint32, _, p []byte) (uint32, []byte) { return crc, p }
