package flags

// Dashes is the line between the parts of perftest's text.
const Dashes = "---------------------------------------------------------------------------------------\n"

// Style is the generation of perftest whose text is written.
type Style uint8

// Styles.
const (
	Classic Style = iota // 4.5 (it calls itself 6.06): "MB/sec"
	Modern               // from 24.07 (6.22) on: "MiB/sec" and more lines in the header
)
