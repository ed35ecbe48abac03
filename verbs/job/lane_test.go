package job

import "testing"

// TestJoined has batches posted at once: whole ones, as many as the window admits,
// and at the end of a job what is left.
func TestJoined(t *testing.T) {
	for _, tt := range []struct {
		window, inFlight, batch, left int // left: 0: the job has no end
		want                          uint64
	}{
		{128, 0, 1, 0, 128},
		{128, 28, 1, 0, 100},
		{128, 127, 1, 0, 1},
		{128, 28, 16, 0, 96},
		{20, 3, 16, 0, 16},
		{128, 28, 32, 40, 40},
		{128, 0, 1, 100, 100},
		{128, 28, 32, 1000, 96},
	} {
		l := lane{
			Lane: &Lane{Window: tt.window, Batch: tt.batch}, ring: make([]message, 1), posted: 1000,
			retired: 1000 - uint64(tt.inFlight),
		}
		if tt.left > 0 {
			l.Count = l.posted + uint64(tt.left)
		}
		if got := l.joined(l.due(false)); got != tt.want {
			t.Errorf("window %d, in flight %d, batch %d, left %d: %d messages, want %d", tt.window, tt.inFlight, tt.batch,
				tt.left, got, tt.want)
		}
	}
}
