package ibv

// Library describes the libibverbs that was found.
type Library struct {
	Path    string          // of the file, links resolved
	Version string          // from the file's name, such as "1.14.44.0"; empty if the name has none
	Missing []MissingSymbol // what it is too old for
}

// MissingSymbol is an optional symbol that the library lacks, and what is off without it.
type MissingSymbol struct {
	Name    string // "ibv_reg_mr_iova2"
	Version string // the symbol version asked for: "IBVERBS_1.8"
	Without string // "relaxed ordering of memory regions"
}
