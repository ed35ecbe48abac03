package roce

import "github.com/gobw/gobw/verbs"

func (d *device) Prepare(j *verbs.Job) (verbs.Runner, error) { return nil, verbs.ErrUnsupported }
