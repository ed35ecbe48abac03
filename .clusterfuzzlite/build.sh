#!/bin/bash -eu
# Builds each fuzz target of the project. testrun.Fuzz, which all of them use, hands the inputs on to testing.F.
while IFS=: read -r file target; do
	package=github.com/gobw/gobw/$(dirname "$file")
	compile_native_go_fuzzer "$package" "$target" "$(tr / _ <<<"${package#github.com/gobw/gobw/}")_$target"
done < <(git grep -oE '^func Fuzz[A-Za-z0-9]+' -- '*_test.go' | sed 's/func //')
