// Package plot draws charts and heat maps as SVG and PNG. It knows nothing of what the numbers mean.
package plot
