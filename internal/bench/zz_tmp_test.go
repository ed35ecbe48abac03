package bench

import "github.com/gobw/gobw/verbs"

type refDevice struct{ verbs.Device }

func (r refDevice) Prepare(j *verbs.Job) (verbs.Runner, error) { return verbs.NewReferenceRunner(j) }
