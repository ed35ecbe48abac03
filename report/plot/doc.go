// Package plot draws charts and heat maps as SVG. It knows nothing of what the numbers mean.
//
// It is ours because no library that is kept up has these three at once: figures inside an HTML page whose colours are
// the page's CSS variables, so that they follow light, dark and print; logarithmic axes with marks of our own
// (crossovers, intervals, markers that colour-blind readers and grey prints tell apart); and the same bytes for the
// same figure on every machine, which golden files need.
package plot
