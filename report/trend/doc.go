// Package trend follows figures over many saved results: one series for each plan, set-up and figure, in the order in
// which they were measured, with the points at which they changed.
//
// Change points are found by E-divisive with means: D. S. Matteson, N. A. James, "A nonparametric approach for multiple
// change point analysis of multivariate data", JASA 109 (2014), with the exponent 2, which compares means, of values
// whose outliers are drawn in. That it finds changes of performance in the results of nightly tests, and how to work
// with it, is told by D. Daly, W. Brown, H. Ingo, J. O'Leary, D. Bradford, "The use of change point detection to
// identify software performance regressions in a continuous integration system", ICPE 2020 (MongoDB), and by M.
// Fleming, P. Kołaczkowski, I. Kumar, S. Das, S. McCarthy, P. Pattabhiraman, H. Ingo, "Hunter: using change point
// detection to hunt for performance regressions", ICPE 2023 (now Apache Otava).
package trend
