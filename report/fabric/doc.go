// Package fabric is the document of a test of many hosts, and its renderings: text, CSV, JSON lines, JUnit, OpenMetrics and
// a page with heat maps. It takes plain data and knows nothing of RDMA.
package fabric
