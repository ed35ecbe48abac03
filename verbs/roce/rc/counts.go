package rc

// Counts are what requesters and responders count.
type Counts struct {
	OutOfSequence, DuplicateRequests, RNRNAKsSent      uint64
	RNRNAKsReceived, SequenceNAKsReceived, ImpliedNAKs uint64
	StrayResponses, ResentPackets, Probes              uint64
	Timeouts, RetriesExceeded                          uint64
}
