package job

func now() Ticks
