package tick

func now() Time
