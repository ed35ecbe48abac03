package verbs

func now() Ticks
