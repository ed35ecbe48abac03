package stats

import (
	"cmp"
	"math"
	"slices"
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
	if k, covered := signedRankInterval(e.N, confidence); k > 0 {
		e.Interval = &Interval{Low: math.Expm1(means[k-1]), High: math.Expm1(means[len(means)-k]), Confidence: covered}
	}
	return e
}

// LeastPairs is how many pairs an interval of this confidence takes at least.
func LeastPairs(confidence float64) int {
	n := 1
	for 1-math.Ldexp(1, 1-n) < confidence && n < 1000 {
		n++
	}
	return n
}

// exactPairs is up to how many pairs the distribution of signed ranks is computed; beyond, it is taken as normal.
const exactPairs = 200

// signedRankInterval is the order of the Walsh means that bounds their median with at least the confidence, and the coverage
// reached; 0 where no order does.
func signedRankInterval(n int, confidence float64) (k int, covered float64) {
	if n > exactPairs {
		mean, sigma := float64(n*(n+1))/4, math.Sqrt(float64(n*(n+1)*(2*n+1))/24)
		k = int(math.Floor(mean - math.Sqrt2*math.Erfinv(confidence)*sigma + 0.5))
		return k, 1 - math.Erfc((mean-float64(k)+0.5)/sigma/math.Sqrt2)
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	tail := 0.0 // P(W < k)
	for w, share := range signedSums(ranks) {
		tail += share
		if 1-2*tail < confidence {
			break
		}
		k, covered = w+1, 1-2*tail
	}
	return k, covered
}

// signedSums is the distribution of the sum of ranks when each counts with probability 1/2.
func signedSums(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	shares := make([]float64, total+1)
	shares[0] = 1
	reached := 0
	for _, r := range ranks {
		reached += r
		for w := reached; w >= 0; w-- {
			shares[w] /= 2
			if w >= r {
				shares[w] += shares[w-r] / 2
			}
		}
	}
	return shares
}

// signedRankP is the two-sided p value of Wilcoxon's signed-rank test: exact, with ties, up to exactPairs; zeros are left out.
func signedRankP(differences []float64) float64 {
	var d []float64
	for _, v := range differences {
		if v != 0 {
			d = append(d, v)
		}
	}
	n := len(d)
	if n == 0 {
		return 1
	}
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	doubled := make([]int, n) // twice the ranks, so that those of ties are whole
	positive, squares := 0, 0.0
	for i := 0; i < n; {
		j := i
		for j < n && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		for at := i; at < j; at++ {
			doubled[at] = i + 1 + j
			squares += float64(doubled[at]) * float64(doubled[at])
			if d[at] > 0 {
				positive += doubled[at]
			}
		}
		i = j
	}
	mean := float64(n*(n+1)) / 2
	if n > exactPairs {
		return math.Erfc(max(math.Abs(float64(positive)-mean)-1, 0) / math.Sqrt(squares/4) / math.Sqrt2)
	}
	p := 0.0
	for w, share := range signedSums(doubled) {
		if math.Abs(float64(w)-mean) >= math.Abs(float64(positive)-mean)-1e-9 {
			p += share
		}
	}
	return min(p, 1)
}
