// Program release builds what a release consists of, the same bytes for the same commit: programs for four platforms,
// .deb and .rpm packages, an SPDX bill of materials and checksums. It is a module of its own, so
// that what it needs is not what gobw needs.
package main
