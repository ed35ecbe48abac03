package stats

import (
	"math"
	"slices"

	"github.com/gobw/gobw/report/plain"
)

// Paired is the effect between values that were measured in pairs, back to back: what drifts, drifts in both and leaves their
// ratio. The change is the Hodges-Lehmann estimate (the median of the means of all two ratios, on the scale of logarithms),
// with the exact interval and test of Wilcoxon's signed ranks (Biometrics Bulletin 1:80, 1945). It takes the ratios to be
// symmetric about their middle, as they are where the order within a pair is drawn by lot. Values must be positive; with one
// that is not, or not finite, the change is NaN.
func Paired(old, new []float64, confidence float64, better Direction) Effect {
	e := Effect{Change: math.NaN(), P: 1, N: min(len(old), len(new)), Better: better, Pairs: true}
	ratios := make([]float64, e.N)
	for i := range ratios {
		if !(old[i] > 0 && new[i] > 0) || math.IsInf(old[i], 0) || math.IsInf(new[i], 0) {
			return e
		}
		ratios[i] = math.Log(new[i] / old[i])
	}
	if e.N == 0 {
		return e
	}
	means := make([]float64, 0, e.N*(e.N+1)/2) // Walsh's
	for i, a := range ratios {
		for _, b := range ratios[i:] {
			means = append(means, (a+b)/2)
		}
	}
	slices.Sort(means)
	e.Change = math.Expm1(median(means))
	e.P = signedRankP(ratios)
	if k, covered := signs(plain.UpTo(1, e.N)).order(confidence); k > 0 {
		e.Interval = &Interval{Low: math.Expm1(means[k-1]), High: math.Expm1(means[len(means)-k]), Confidence: covered}
	}
	return e
}

// signedRankP is the two-sided p value of Wilcoxon's signed-rank test; zeros are left out.
func signedRankP(differences []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool { return v == 0 })
	doubled := doubledRanks(plain.Each(d, math.Abs))
	positive := 0
	for i, r := range doubled {
		if d[i] > 0 {
			positive += r
		}
	}
	return signs(doubled).p(positive)
}
